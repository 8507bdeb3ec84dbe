#!/usr/bin/env bash
# Writes a job script for given nodes, ranks and time.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/slurm/render.sh [options] CONFIG --run DIR [options of `rossby train`] > job.sbatch

  --nodes N             nodes (default 1)
  --ranks-per-node N    MPI ranks per node (default 2; with GPUs: one per GPU)
  --cpus-per-rank N     cores and OpenMP threads per rank (default 1)
  --gpus-per-node N     GPUs per node (default 0); adds --device cuda to the training, unless a device is named
  --time TIME           time limit of one start, in Slurm's format (default 01:00:00)
  --before SECONDS      how long before the limit a checkpoint is written (default 120)
  --seeds FIRST-LAST    an array job with one training per seed
  --partition NAME, --account NAME, --job-name NAME
  --machine NAME|FILE   settings of the cluster (default: ROSSBY_MACHINE, else generic)

The script checks the options, and submits nothing.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
# word OPTION NAME: checks a name for #SBATCH lines, which end at a space, and for names of logs.
word() {
  if [[ $2 =~ [^[:alnum:]._,:@+=%-] ]]; then die "$1 '$2': use a name without spaces, quotes and slashes"; fi
}
# seconds TIME: prints the seconds of a time in Slurm's format; 0: no limit.
seconds() {
  local days=0 parts=() rest=$1
  if [[ $rest == *-* ]]; then days=${rest%%-*} rest=${rest#*-}; fi
  IFS=: read -r -a parts <<<"$rest"
  # Minutes; minutes and seconds; hours, minutes and seconds. After days, hours come first.
  if [[ $1 != *-* ]]; then
    case ${#parts[@]} in
      1) parts=(0 "${parts[0]}" 0) ;;
      2) parts=(0 "${parts[@]}") ;;
    esac
  fi
  printf '%s\n' $((10#$days * 86400 + 10#${parts[0]} * 3600 + 10#${parts[1]:-0} * 60 + 10#${parts[2]:-0}))
}
# run_among ARGS...: succeeds if --run DIR is among the arguments of a training.
run_among() {
  while (($# > 0)); do
    case $1 in
      --run)
        if [[ -z ${2:-} || $2 == -* ]]; then die "--run needs the folder of the run (see --help)"; fi
        return 0
        ;;
      --run=?*) return 0 ;;
      --run=) die "--run needs the folder of the run (see --help)" ;;
    esac
    shift
  done
  return 1
}
positive() {
  if [[ ! $2 =~ ^[1-9][0-9]*$ ]]; then die "$1 $2: not a positive number. Give 1 or more"; fi
}

nodes=1 ranks='' cpus=1 gpus=0 time=01:00:00 before=120 seeds='' name=rossby machine=${ROSSBY_MACHINE:-generic} extra=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --nodes) nodes=${2:?--nodes needs a number} ;;
    --ranks-per-node) ranks=${2:?--ranks-per-node needs a number} ;;
    --cpus-per-rank) cpus=${2:?--cpus-per-rank needs a number} ;;
    --gpus-per-node) gpus=${2:?--gpus-per-node needs a number} ;;
    --time) time=${2:?--time needs a time} ;;
    --before) before=${2:?--before needs seconds} ;;
    --seeds) seeds=${2:?--seeds needs FIRST-LAST} ;;
    --partition | --account)
      word "$1" "${2:?$1 needs a name}"
      extra+=("$1=$2")
      ;;
    --job-name) name=${2:?--job-name needs a name} ;;
    --machine) machine=${2:?--machine needs a name} ;;
    *) break ;;
  esac
  shift 2
done
if (($# == 0)); then die "the configuration is missing. Give CONFIG (see --help)"; fi
if [[ $1 == -* ]]; then die "$1 is no option of this script. Give CONFIG before the options of rossby train (see --help)"; fi
if ! run_among "${@:2}"; then die "the run directory is missing. Give --run DIR after CONFIG (see --help)"; fi
word --job-name "$name"
positive --nodes "$nodes"
positive --cpus-per-rank "$cpus"
positive --before "$before"
if [[ ! $gpus =~ ^[0-9]+$ ]]; then die "--gpus-per-node $gpus: not a number. Give 0 or more"; fi
if [[ -z $ranks ]]; then ranks=$((gpus > 0 ? gpus : 2)); fi
positive --ranks-per-node "$ranks"
if [[ ! $time =~ ^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$ ]]; then die "--time $time: not a time in Slurm's format. Write for example 30, 01:00:00 or 1-12:00:00"; fi
limit=$(seconds "$time")
if ((limit > 0 && before >= limit)); then die "--before $before: the checkpoint would be written before the start, because --time $time is $limit s. Give a smaller --before"; fi
if [[ -n $seeds ]]; then
  if [[ ! $seeds =~ ^[0-9]+(-[0-9]+)?$ ]]; then die "--seeds $seeds: not FIRST-LAST. Write two numbers, such as 1-5"; fi
  if ((10#${seeds%-*} > 10#${seeds#*-})); then die "--seeds $seeds: FIRST is larger than LAST. Exchange these numbers"; fi
fi
if ((gpus > 0 && ranks % gpus != 0)); then die "--ranks-per-node $ranks: not a multiple of the $gpus GPUs of a node. Give a multiple of $gpus"; fi
settings=$machine
if [[ $machine == */* ]]; then
  settings=$(realpath "$machine")
  machine=$settings
else
  settings=$root/jobscripts/machines/$machine.sh
fi
if [[ ! -r $settings ]]; then die "--machine $machine: no such settings in $root/jobscripts/machines. Give the name of a file there, or a path"; fi
if [[ ! -r $1 ]]; then die "$1: this configuration cannot be read. Give the path of a TOML file"; fi

script=train.sbatch output=%x-%j.log
if [[ -n $seeds ]]; then script=train_array.sbatch output=%x-%A_%a.log; fi
printf '#!/usr/bin/env bash\n'
printf '#SBATCH %s\n' "--job-name=$name" "--nodes=$nodes" "--ntasks-per-node=$ranks" "--cpus-per-task=$cpus" "--time=$time" \
  --requeue "--signal=B:USR1@$before" --open-mode=append "--output=$output"
if ((gpus > 0)); then printf '#SBATCH --gpus-per-node=%s\n' "$gpus"; fi
if [[ -n $seeds ]]; then printf '#SBATCH --array=%s\n' "$seeds"; fi
if ((${#extra[@]} > 0)); then printf '#SBATCH %s\n' "${extra[@]}"; fi
printf 'export ROSSBY_ROOT=%q ROSSBY_MACHINE=%q\n' "$root" "$machine"
if ((gpus > 0)) && [[ " $* " != *" --device"[\ =]* && " $* " != *parallel.device=* ]]; then set -- "$@" --device cuda; fi
# shellcheck disable=SC2016  # expanded by the job
printf 'exec bash "$ROSSBY_ROOT/jobscripts/slurm/%s" "$@"' "$script"
printf ' %q' "$@"
printf '\n'
