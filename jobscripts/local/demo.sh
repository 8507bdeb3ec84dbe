#!/usr/bin/env bash
# Trains, evaluates and forecasts on a small synthetic Pacific, or on a file of yours.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/local/demo.sh [--data FILE [--variable NAME]] [--out DIR] [--ranks N] [--set key=value]...

Installs what is missing (Debian packages), builds the program and runs it: makes a synthetic Pacific, trains on it
under mpirun, writes a forecast, scores the model beside its baselines, and makes a page with pictures if matplotlib is
installed. Ends with the table of errors and the paths of what it wrote.

  --data FILE       a NetCDF series of yours instead of the synthetic Pacific
  --variable NAME   the variable of it that is forecast (default: the first that fits)
  --out DIR         where to write (default build/demo, which is made anew; another folder must be new or empty)
  --ranks N         MPI ranks (default 2)
  --set key=value   a setting on top of apps/configs/demo.toml (`rossby config` lists them)

environment:
  ROSSBY_NO_INSTALL=1      install nothing: say what is missing and stop
  ROSSBY_SKIP_PACKAGES=1   do not look at packages (dependencies come from elsewhere)
  ROSSBY_JOBS=N            parallel compilations (default: the cores of this machine)
TEXT
}

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data='' variable='' out='' ranks=2 settings=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --data) data=${2:?--data needs a file} ;;
    --variable) variable=${2:?--variable needs a name} ;;
    --out) out=${2:?--out needs a folder} ;;
    --ranks) ranks=${2:?--ranks needs a number} ;;
    --set) settings+=(--set "${2:?--set needs key=value}") ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
  shift 2
done
if [[ ! $ranks =~ ^[1-9][0-9]*$ ]]; then die "--ranks $ranks: not a positive number"; fi
if [[ -n $data ]]; then
  if [[ ! -r $data ]]; then die "--data $data: no such file, or not readable"; fi
  data=$(realpath "$data")
fi
if [[ -z $out ]]; then
  out=$rossby_root/build/demo
  rm -rf "$out"
elif [[ -e $out && -n $(ls -A "$out") ]]; then
  die "--out $out: exists and is not empty, choose another"
fi
mkdir -p "$out"
out=$(realpath "$out")

ensure_packages "${rossby_build_packages[@]}"
# The demo trains on the CPU. GPU kernels take a fifth of the build: a new tree on a machine without a GPU does without.
options=()
if [[ ! -f $rossby_root/build/release/CMakeCache.txt ]] && ! nvidia-smi -L >/dev/null 2>&1; then
  options+=(-DROSSBY_WITH_CUDA=OFF)
  if command -v nvcc >/dev/null; then
    say "no GPU here: builds no GPU kernels (cmake --preset release -DROSSBY_WITH_CUDA=AUTO adds them)"
  fi
fi
build_preset release rossby ${options[@]+"${options[@]}"}
rossby=$(find "$rossby_root/build/release/apps" -type f -name rossby -perm -u+x | head -n 1)
mpi_settings "$ranks"
run_ranks() { mpirun -n "$ranks" "$rossby" "$@"; }

written=("$out/run/config.toml" "$out/run/metrics.jsonl" "$out/run/checkpoints" "$out/run/evaluation.json"
  "$out/run/forecast.nc")
if [[ -z $data ]]; then
  data=$out/pacific.nc
  written=("$data" "${written[@]}")
  say "making a synthetic Pacific"
  "$rossby" data synth --kind pacific --lat 30 --lon 84 --steps 240 --seed 1 -o "$data"
  settings=(--set data.cycle=auto "${settings[@]}") # it has an annual cycle, and dates
fi

# The program takes a variable for granted only where no other fits.
if [[ -z $variable ]]; then
  "$rossby" data inspect "$data" >"$out/inspect.txt"
  readarray -t fitting < <(sed -nE 's/^variable +([^ :]+).*/\1/p' "$out/inspect.txt")
  if ((${#fitting[@]} > 1)); then
    variable=${fitting[0]}
    say "several variables fit (${fitting[*]}): takes $variable, --variable chooses another"
  fi
fi
if [[ -n $variable ]]; then settings=(--set "data.variables=$variable" "${settings[@]}"); fi

run=$out/run
say "training on $ranks ranks"
run_ranks train "$rossby_root/apps/configs/demo.toml" --run "$run" --set "data.file=$data" "${settings[@]}"
say "forecasting 5 steps beyond the data"
run_ranks forecast "$run" --steps 5
say "scoring it on the test part beside its baselines"
run_ranks evaluate "$run"
say "drawing a page of it"
if "$rossby" report run "$run"; then written+=("$run/report/index.html"); fi # not without matplotlib, which it names

say "written"
for file in "${written[@]}"; do
  if [[ ! -e $file ]]; then die "$file: should have been written"; fi
  printf '%s\n' "$file"
done
