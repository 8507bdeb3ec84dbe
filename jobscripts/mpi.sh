# shellcheck shell=bash
# Shared by the scripts that start ranks on this machine. Sourced, never run.

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# mpi_settings RANKS: lets Open MPI run on one machine, as root in a container and with fewer cores than
# ranks.
mpi_settings() {
  local ranks=$1 cores
  cores=$(nproc)
  if ((EUID == 0)); then
    # Open MPI requires two confirmations to run as root.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
  # Containers often forbid a process to read another's memory. Copying through shared memory always works.
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  if ((ranks >= cores)); then
    # A waiting rank must yield its core.
    export OMPI_MCA_mpi_yield_when_idle=1
  fi
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > ranks ? cores / ranks : 1))}
  export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
}
