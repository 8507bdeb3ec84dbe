# shellcheck shell=bash disable=SC2034  # read by jobscripts/slurm/common.sh
# Example: Debian 12 nodes with the distribution's Slurm, PMIx and Open MPI over TCP, no modules.

rossby_modules=()
rossby_launcher=srun
# Debian's Open MPI supports PMIx, not PMI2.
rossby_srun_options=(--mpi=pmix --kill-on-bad-exit=0 --wait=60)
rossby_mpirun_options=()
rossby_program=''

rossby_environment() {
  # There is no fabric here, and the plug-ins that look for one take time.
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
  # Slurm 22.05 mixes two kinds of fences by default, so that ranks get messages over TCP inside MPI_Init
  # before they are ready. Failed starts of a trivial program of one to eight ranks on one to four nodes: 3 of
  # 517 with both kinds, 23 of 1,338 with trees alone, none of 2,056 with rings.
  export SLURM_PMIX_FENCE=ring
}
