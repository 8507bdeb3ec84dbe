#!/usr/bin/env bash
# Trains, evaluates and forecasts on a small synthetic Pacific, or on your file.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/local/demo.sh [--data FILE [--variable NAME]] [--out DIR] [--ranks N] [--set key=value]...

Installs what is missing (Debian packages), builds the program and runs it: makes a synthetic Pacific, trains on it
under mpirun, writes a forecast, scores the model beside its baselines, and makes a page with pictures if matplotlib is
installed. Then prints the table of errors and the paths of all written files.

  --data FILE       a NetCDF series of yours instead of the synthetic Pacific
  --variable NAME   the variable of FILE to forecast (default: the first that fits)
  --out DIR         where to write (default build/demo, which is made anew; another folder must be new or empty)
  --ranks N         MPI ranks (default 2)
  --set key=value   a setting on top of apps/configs/demo.toml (`rossby config` lists all keys)

environment:
  ROSSBY_NO_INSTALL=1      install nothing: list missing packages and stop
  ROSSBY_SKIP_PACKAGES=1   do not look at packages (dependencies come from elsewhere)
  ROSSBY_JOBS=N            parallel compilations (default: the cores of this machine)
TEXT
}

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out='' arguments=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --out) out=${2:?--out needs a folder} ;;
    --data)
      if [[ ! -r ${2:?--data needs a file} ]]; then die "--data $2: this file cannot be read. Name a NetCDF file"; fi
      arguments+=(--data "$(realpath "$2")")
      ;;
    --ranks)
      if [[ ! ${2:?--ranks needs a number} =~ ^[1-9][0-9]*$ ]]; then die "--ranks $2: not a positive number. Give 1 or more"; fi
      arguments+=(--ranks "$2")
      ;;
    --variable | --set) arguments+=("$1" "${2:?$1 needs a value}") ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
  shift 2
done
if [[ -z $out ]]; then
  out=$rossby_root/build/demo
  rm -rf "$out"
elif [[ -e $out && -n $(ls -A "$out") ]]; then
  die "--out $out: the folder is not empty. Choose another folder"
fi

ensure_packages "${rossby_build_packages[@]}"
# The demo trains on the CPU. GPU kernels take a fifth of the build, so a new tree without a GPU omits them.
options=()
if [[ ! -f $rossby_root/build/release/CMakeCache.txt ]] && ! nvidia-smi -L >/dev/null 2>&1; then
  options+=(-DROSSBY_WITH_CUDA=OFF)
  if command -v nvcc >/dev/null; then
    say "no GPU here, so that GPU kernels are not built (cmake --preset release -DROSSBY_WITH_CUDA=AUTO adds these kernels)"
  fi
fi
build_preset release rossby ${options[@]+"${options[@]}"}
rossby=$(find "$rossby_root/build/release/apps" -type f -name rossby -perm -u+x | head -n 1)
exec "$rossby_root/jobscripts/demo.sh" --rossby "$rossby" --out "$out" ${arguments[@]+"${arguments[@]}"}
