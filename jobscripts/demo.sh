#!/usr/bin/env bash
# Trains, evaluates and forecasts on a small synthetic Pacific, or on your file, with an installed program.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: demo.sh [--data FILE [--variable NAME]] [--out DIR] [--ranks N] [--set key=value]... [--rossby PROGRAM]

Makes a synthetic Pacific, trains on it under mpirun, writes a forecast, scores the model beside its baselines, and
makes a page with pictures if matplotlib is installed. Then prints the table of errors and the paths of all written files.

  --data FILE       a NetCDF series of yours instead of the synthetic Pacific
  --variable NAME   the variable of FILE to forecast (default: the first that fits)
  --out DIR         where to write: a folder that is new or empty (default rossby_demo)
  --ranks N         MPI ranks (default 2)
  --set key=value   a setting on top of demo.toml (`rossby config` lists all keys)
  --rossby PROGRAM  the program (default: rossby on the PATH)
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=mpi.sh
. "$here/mpi.sh"

data='' variable='' out=rossby_demo ranks=2 settings=() against=() program=rossby
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
    --rossby) program=${2:?--rossby needs a program} ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
  shift 2
done
if [[ ! $ranks =~ ^[1-9][0-9]*$ ]]; then die "--ranks $ranks: not a positive number. Give 1 or more"; fi
if [[ -n $data ]]; then
  if [[ ! -r $data ]]; then die "--data $data: this file cannot be read. Name a NetCDF file"; fi
  data=$(realpath "$data")
fi
if [[ -e $out && -n $(ls -A "$out") ]]; then die "--out $out: the folder is not empty. Choose another folder"; fi
rossby=$(type -P "$program") || die "there is no program $program. Put rossby on the PATH, or name it with --rossby"
if [[ -z $(type -P mpirun) ]]; then die "there is no mpirun on the PATH. Install openmpi-bin, or load the module of your MPI"; fi
config=$here/../configs/demo.toml # where it is installed
if [[ ! -r $config ]]; then config=$here/../apps/configs/demo.toml; fi
mkdir -p "$out"
out=$(realpath "$out")
mpi_settings "$ranks"
run_ranks() { mpirun -n "$ranks" "$rossby" "$@"; }

written=("$out/run/config.toml" "$out/run/metrics.jsonl" "$out/run/checkpoints" "$out/run/evaluation.json"
  "$out/run/scores.nc" "$out/run/forecast.nc")
if [[ -z $data ]]; then
  data=$out/pacific.nc
  written=("$data" "${written[@]}")
  say "making a synthetic Pacific"
  "$rossby" data synth --kind pacific --lat 30 --lon 84 --steps 240 --seed 1 -o "$data"
  # The series has an annual cycle, dates, and steady currents, so that each edge of the grid has a weight to
  # learn. The settings were chosen on the series of seeds 11 and 12.
  settings=(--set data.cycle=auto --set relation.mode=refine --set optimiser.lr_relation=0.003 --set data.factor=0.6
    "${settings[@]}")
  against=(--against direct_ridge)
fi

# The program chooses a variable itself only if no other fits.
if [[ -z $variable ]]; then
  "$rossby" data inspect "$data" >"$out/inspect.txt"
  readarray -t fitting < <(sed -nE 's/^variable +([^ :]+).*/\1/p' "$out/inspect.txt")
  if ((${#fitting[@]} > 1)); then
    variable=${fitting[0]}
    say "several variables fit (${fitting[*]}): using $variable. Choose another with --variable"
  fi
fi
if [[ -n $variable ]]; then settings=(--set "data.variables=$variable" "${settings[@]}"); fi

run=$out/run
say "training on $ranks ranks"
run_ranks train "$config" --run "$run" --set "data.file=$data" "${settings[@]}"
say "forecasting 5 steps beyond the data"
run_ranks forecast "$run" --steps 5
say "scoring the model on the test part, beside baselines"
run_ranks evaluate "$run" --scores "$run/scores.nc" ${against[@]+"${against[@]}"}
say "making a page with pictures of the run"
if "$rossby" report run "$run"; then written+=("$run/report/index.html"); fi # fails without matplotlib and says so

say "written"
for file in "${written[@]}"; do
  if [[ ! -e $file ]]; then die "$file: this file was not written. See the output above"; fi
  printf '%s\n' "$file"
done
