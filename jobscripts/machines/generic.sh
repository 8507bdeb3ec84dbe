# shellcheck shell=bash disable=SC2034  # read by jobscripts/slurm/common.sh
# Settings of a cluster for jobscripts/slurm. Copy this file under the cluster's name, edit the copy, and name it with
# ROSSBY_MACHINE or --machine. Sourced by job scripts, on the first node of a job.

# Modules that the program was built with; loaded where there is a module command.
rossby_modules=()

# What starts the ranks: srun (with the PMI plug-in of the MPI library; `srun --mpi=list` names them) or mpirun.
# A rank that leaves for a checkpoint ends with exit code 75: the others must be let end, too, not be killed; those that
# are left a minute after the first has ended are.
rossby_launcher=srun
rossby_srun_options=(--mpi=pmix --kill-on-bad-exit=0 --wait=60)
rossby_mpirun_options=()

# The program, where it is not built/release/apps/rossby of this tree.
rossby_program=''

# More that the ranks need, e.g. the interface that MPI takes.
rossby_environment() {
  # More ranks than cores? Then a rank that waits must give its core away: OMPI_MCA_mpi_yield_when_idle=1.
  :
}
