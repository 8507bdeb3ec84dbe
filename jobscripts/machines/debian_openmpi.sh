# shellcheck shell=bash disable=SC2034  # read by jobscripts/slurm/common.sh
# Example: Debian 12 nodes with the distribution's Slurm, PMIx and Open MPI over TCP, no modules.

rossby_modules=()
rossby_launcher=srun
# Debian's Open MPI has PMIx, not PMI2.
rossby_srun_options=(--mpi=pmix --kill-on-bad-exit=0 --wait=60)
rossby_mpirun_options=()
rossby_program=''

rossby_environment() {
  # No fabric here: the plug-ins that look for one only take time.
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
  # Slurm 22.05 mixes two kinds of fences by default, and ranks got messages over TCP inside MPI_Init before they were
  # ready for them: 28 of 1,464 starts of a trivial program on 1 to 4 nodes died of it; of 732 with one kind, none.
  export SLURM_PMIX_FENCE=tree
}
