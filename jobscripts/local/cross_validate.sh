#!/usr/bin/env bash
# Blocked cross-validation of a configuration inside its training part: trains once per fold, prints the validation error of
# each and their mean. Nothing of the test part is looked at.
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
while (($#)); do
  case $1 in
    --folds) folds=$2; shift 2 ;;
    --ranks) ranks=$2; shift 2 ;;
    --rossby) program=$2; shift 2 ;;
    --set) sets+=(--set "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "cross_validate.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    *) config=$1; shift ;;
  esac
done
[[ -n $config ]] || { usage >&2; exit 2; }

launch=("$program")
((ranks > 1)) && launch=(mpirun -n "$ranks" "$program")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

errors=()
for ((fold = 0; fold < folds; ++fold)); do
  run=$scratch/fold$fold
  "${launch[@]}" train "$config" --run "$run" ${sets[@]+"${sets[@]}"} --set split.folds="$folds" --set split.fold="$fold" \
    --set split.validation=0 > "$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
  # The validation error of the state that is kept: the best epoch's where the best is kept, else the last one's.
  best=$(sed -n 's/^best .*validation \([0-9.e+-]*\) .*/\1/p' "$scratch/log")
  # An stnn's is an RMSE, a forecaster's of windows an MAE.
  last=$(sed -nE 's/.*"validation_(rmse|mae)":([0-9.e+-]+).*/\2/p' "$run/metrics.jsonl" | tail -n 1)
  [[ -n $best$last ]] || { echo "cross_validate.sh: fold $fold has no validation error: is its part shorter than the horizons?" >&2; exit 1; }
  if grep -q '^keep = "last"' "$run/config.toml"; then errors+=("$last"); else errors+=("${best:-$last}"); fi
done
printf '%s\n' "${errors[@]}" | awk '{ s += $1; printf "%.4f ", $1 } END { printf " mean %.4f\n", s / NR }'
