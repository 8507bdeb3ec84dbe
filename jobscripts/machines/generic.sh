# shellcheck shell=bash disable=SC2034  # read by jobscripts/slurm/common.sh
# Settings of a cluster for jobscripts/slurm. Name a copy of this file after the cluster, edit the copy, and
# select it with ROSSBY_MACHINE or --machine. Job scripts source it on the first node of a job.

# Modules that the program was built with; loaded if there is a module command.
rossby_modules=()

# Launcher of the ranks: srun (with the PMI plug-in of the MPI library; see `srun --mpi=list`) or mpirun. A
# rank that leaves for a checkpoint ends with exit code 75. The launcher must not kill the other ranks then;
# it kills those that are left a minute after the first one ended.
rossby_launcher=srun
rossby_srun_options=(--mpi=pmix --kill-on-bad-exit=0 --wait=60)
rossby_mpirun_options=()

# Path of the program if it is not build/release/apps/rossby of this tree.
rossby_program=''

# Further environment of the ranks, e.g. the interface for MPI.
rossby_environment() {
  # If ranks outnumber cores, a waiting rank must yield its core: OMPI_MCA_mpi_yield_when_idle=1.
  :
}
