# shellcheck shell=bash
# Shared by the local job scripts: packages, build, MPI settings. Sourced, never run.
#
# ROSSBY_NO_INSTALL=1     install nothing: list what is missing and stop
# ROSSBY_SKIP_PACKAGES=1  do not look for packages at all (dependencies come from elsewhere, e.g. modules)
# ROSSBY_JOBS=N           parallel compilations and tests (default: the cores of this machine)

set -euo pipefail

rossby_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rossby_jobs=${ROSSBY_JOBS:-$(nproc)}

# shellcheck source=../mpi.sh
. "$rossby_root/jobscripts/mpi.sh"

# Names of Debian 12, the same in Ubuntu. GoogleTest and Google Benchmark are included so that one configured
# tree serves both scripts.
# shellcheck disable=SC2034  # used by the scripts that source this
rossby_build_packages=(
  cmake g++ libbenchmark-dev libblosc-dev libcli11-dev libfmt-dev libgtest-dev libhdf5-openmpi-dev liblz4-dev libnetcdf-dev
  libopenblas-dev libopenmpi-dev libtomlplusplus-dev libzstd-dev ninja-build nlohmann-json3-dev openmpi-bin openssh-client
  petsc-dev pkg-config zlib1g-dev
)
# Tests read written files with ncdump and xarray, draw with Graphviz and matplotlib, simulate hosts with
# network namespaces, and look for ranks.
# shellcheck disable=SC2034  # used by the scripts that source this
rossby_test_packages=(graphviz iproute2 netcdf-bin procps python3-matplotlib python3-netcdf4 python3-numpy
  python3-xarray python3-zarr)

# libFuzzer and its run-time library, and llvm for readable stack traces. The distribution's default clang is
# too old.
# shellcheck disable=SC2034  # used by the scripts that source this
rossby_fuzz_packages=(clang-19 libclang-rt-19-dev llvm-19)

# A Slurm of virtual nodes, for the tests of jobscripts/slurm.
# shellcheck disable=SC2034  # used by the scripts that source this
rossby_slurm_packages=(munge slurm-client slurm-wlm-basic-plugins slurmctld slurmd)

# quietly LOG COMMAND...: writes output to LOG and shows it only if the command fails.
quietly() {
  local log=$1 status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 60 "$log" >&2
    printf 'error: %s failed with exit code %d; all of its output is in %s\n' "$1" "$status" "$log" >&2
    exit "$status"
  fi
}

# with_steps PATTERN LOG COMMAND...: as quietly, but also shows the lines that match the extended regular
# expression PATTERN: in one place on a terminal, one every 5 s elsewhere.
with_steps() {
  local pattern=$1 log=$2 status=0
  shift 2
  mkdir -p "$(dirname "$log")"
  "$@" 2>&1 | tee "$log" | show_steps "$pattern" || status=$?
  if ((status != 0)); then
    tail -n 60 "$log" >&2
    printf 'error: %s failed with exit code %d; all of its output is in %s\n' "$1" "$status" "$log" >&2
    exit "$status"
  fi
}

show_steps() {
  local pattern=$1 line waiting='' next=0 width
  width=$(tput cols 2>/dev/null || echo 100)
  while IFS= read -r line; do
    if [[ ! $line =~ $pattern ]]; then continue; fi
    waiting=$line
    if [[ -t 1 ]]; then
      printf '\r\033[K%s' "${line:0:width - 1}"
    elif ((SECONDS >= next)); then
      printf '%s\n' "$line"
      waiting='' next=$((SECONDS + 5))
    fi
  done
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
  if [[ -n $waiting ]]; then printf '%s\n' "$waiting"; fi
}

# ensure_packages PACKAGE...: installs missing packages, or lists them and stops.
ensure_packages() {
  local package missing=() become=()
  if [[ ${ROSSBY_SKIP_PACKAGES:-0} == 1 ]]; then return; fi
  if ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian system, so that nothing is installed. CMake names missing packages (needed, with Debian's names: $*)"
    return
  fi
  for package in "$@"; do
    if [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return; fi

  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  if [[ ${ROSSBY_NO_INSTALL:-0} == 1 ]]; then
    die "packages are missing, and ROSSBY_NO_INSTALL=1 forbids to install them. Run: $command"
  fi
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      become=(sudo)
    else
      die "packages are missing, and this user is not root and has no sudo. Ask an administrator to run: $command"
    fi
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  quietly "$rossby_root/build/logs/apt_update.log" "${become[@]}" apt-get update
  with_steps '^(Get:[0-9]+|Unpacking|Setting up) ' "$rossby_root/build/logs/apt_install.log" "${become[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# build_preset PRESET [TARGET [CMAKE OPTION...]]: configures and builds in build/PRESET.
build_preset() {
  local preset=$1 target=${2:-all} folder=$rossby_root/build/$1 options=("${@:3}")
  if [[ -z ${CMAKE_GENERATOR:-} ]] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache); fi
  if command -v mold >/dev/null; then options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold); fi
  cd "$rossby_root"
  # A tree keeps the generator that it was configured with.
  if [[ -f $folder/CMakeCache.txt ]]; then unset CMAKE_GENERATOR; fi
  say "building $target ($preset) in $folder"
  quietly "$folder/logs/configure.log" cmake --preset "$preset" "${options[@]}"
  # If the cache has no entry, it need not run the preprocessor: the compiler lists the headers anyway.
  export CCACHE_DEPEND=${CCACHE_DEPEND:-1}
  with_steps '^\[[ 0-9/%]+\] ' "$folder/logs/build.log" cmake --build --preset "$preset" --target "$target" --parallel "$rossby_jobs"
}
