#!/usr/bin/env bash
# Blocked cross-validation of a configuration inside its training part: trains once per fold, and prints the validation error
# of each fold and the mean. The test part is not read.
#
#   cross_validate.sh CONFIG.toml [--folds K] [--ranks P] [--rossby PROGRAM] [--set key=value]...
set -euo pipefail

usage() {
  sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

folds=5
ranks=1
program=rossby
config=
sets=()
refuse() {
  echo "cross_validate.sh: $*" >&2
  exit 2
}

while (($#)); do
  case $1 in
    --folds | --ranks | --rossby | --set) (($# > 1)) || refuse "$1 needs a value" ;;
  esac
  case $1 in
    --folds) folds=$2; shift 2 ;;
    --ranks) ranks=$2; shift 2 ;;
    --rossby) program=$2; shift 2 ;;
    --set) sets+=(--set "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) refuse "unknown option $1 (see --help)" ;;
    *) [[ -z $config ]] || refuse "$1: there is already a configuration, $config. Give only one"
       config=$1; shift ;;
  esac
done
[[ -n $config ]] || { usage >&2; exit 2; }
[[ $folds =~ ^([2-9]|[1-9][0-9]+)$ ]] || refuse "--folds $folds: give a whole number of at least 2"
[[ $ranks =~ ^[1-9][0-9]*$ ]] || refuse "--ranks $ranks: give a whole number of at least 1"

launch=("$program")
((ranks > 1)) && launch=(mpirun -n "$ranks" "$program")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

errors=()
for ((fold = 0; fold < folds; ++fold)); do
  run=$scratch/fold$fold
  "${launch[@]}" train "$config" --run "$run" ${sets[@]+"${sets[@]}"} --set split.folds="$folds" --set split.fold="$fold" \
    --set split.validation=0 > "$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
  # Validation error of the kept state: an RMSE for an stnn, an MAE for a window model.
  kept=$(sed -nE '/the last state is kept/!s/^best .* after epoch ([0-9]+)$/\1/p' "$scratch/log")
  if [[ -n $kept ]]; then
    line=$(grep "^{\"epoch\":$((kept - 1))," "$run/metrics.jsonl" | tail -n 1)
  else
    line=$(tail -n 1 "$run/metrics.jsonl")
  fi
  error=$(sed -nE 's/.*"validation_(rmse|mae)":([0-9.e+-]+).*/\2/p' <<<"$line")
  if [[ -z $error ]]; then
    echo "cross_validate.sh: fold $fold has no validation error of the kept state${kept:+ (epoch $kept)}." \
      "Use fewer folds if a fold is shorter than the horizons, and set validation.every = 1" >&2
    exit 1
  fi
  errors+=("$error")
done
printf '%s\n' "${errors[@]}" | awk '{ s += $1; printf "%.4f ", $1 } END { printf " mean %.4f\n", s / NR }'
