# shellcheck shell=bash disable=SC2034  # read by jobscripts/slurm/common.sh
# Virtual nodes on one machine, for tests: they share a host name, so that shared memory's files would collide.
rossby_modules=()
rossby_launcher=${ROSSBY_TEST_LAUNCHER:-srun}
rossby_srun_options=(--mpi=pmix --kill-on-bad-exit=0 --wait=60)
rossby_mpirun_options=(--oversubscribe)
rossby_program=''

rossby_environment() {
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_hwloc_base_binding_policy=none OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export SCOTCH_PTHREAD_NUMBER=1 SLURM_PMIX_FENCE=ring # see jobscripts/machines/debian_openmpi.sh
}
