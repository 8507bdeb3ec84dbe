#!/usr/bin/env bash
# Builds Rossby and runs its tests; ends with CTest's summary.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/local/test.sh [--preset NAME] [--target NAME] [CTEST OPTION...]

Installs what is missing (Debian packages), configures, builds and runs the tests.

  --preset NAME   release (default), debug, asan, tsan, ci or lib-only (without MPI and PETSc)
  --target NAME   what to build: all (default); library_tests: the tests of lib/ and mpi/ (run with -L '^(lib|mpi)$');
                  or another target of the build
  CTEST OPTION    passed to ctest, e.g. -R relation, -L lib, -L np2

environment:
  ROSSBY_NO_INSTALL=1      install nothing: list missing packages and stop
  ROSSBY_SKIP_PACKAGES=1   do not look at packages (dependencies come from elsewhere)
  ROSSBY_JOBS=N            parallel compilations and tests (default: the cores of this machine)
  ROSSBY_GOLDEN=DIR        reference results for the parity tests (default ../shared/golden)
  ROSSBY_DATA=DIR          data sets for the tests on real files (default ../shared/data)
TEXT
}

preset=release
target=all
ctest_options=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --preset)
      preset=${2:?--preset needs a name}
      shift
      ;;
    --target)
      target=${2:?--target needs a name}
      shift
      ;;
    *) ctest_options+=("$1") ;;
  esac
  shift
done

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ $preset == lib-only ]]; then
  packages=()
  for package in "${rossby_build_packages[@]}"; do
    case $package in
      *mpi* | petsc-dev | libcli11-dev | openssh-client) ;;
      *) packages+=("$package") ;;
    esac
  done
  ensure_packages "${packages[@]}"
else
  ensure_packages "${rossby_build_packages[@]}" "${rossby_test_packages[@]}"
fi
build_preset "$preset" "$target"
say "testing ($preset)"
# Programs that start wait for mpiexec, so that one test more than there are cores keeps these busy.
ctest --preset "$preset" --parallel "$((rossby_jobs + 1))" "${ctest_options[@]}"
