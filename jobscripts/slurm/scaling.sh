# shellcheck shell=bash
# Shared by scaling_strong.sbatch and scaling_weak.sbatch, in addition to common.sh. Sourced.

# filled TEXT RANKS: TEXT with {ranks} and {20*ranks} filled in.
filled() {
  local text=$1 ranks=$2
  text=${text//'{ranks}'/$ranks}
  while [[ $text =~ \{([0-9]+)\*ranks\} ]]; do
    text=${text/"${BASH_REMATCH[0]}"/$((10#${BASH_REMATCH[1]} * ranks))}
  done
  printf '%s' "$text"
}

# write_study FOLDER KIND KEY...: writes the facts about a folder's runs for `rossby report scaling`, unless
# they exist.
write_study() {
  local folder=$1 kind=$2 file=$1/study.json label keys='' part
  shift 2
  if [[ ! -e $file ]]; then
    label=$(basename "$(realpath -m "$folder")" | tr -d '"\\[:cntrl:]')
    while (($# > 0)); do
      keys+=${keys:+, }\"$1\"
      shift
    done
    part=$file.$(hostname).$$.part
    printf '{"format": 1, "kind": "%s", "label": "%s", "scaled": [%s]}\n' "$kind" "$label" "$keys" >"$part" ||
      die "$part: cannot be written. Choose another folder with --study"
    # Jobs of a study may start at the same time: the first file stays. Not all file systems have hard links.
    ln "$part" "$file" 2>/dev/null || mv -n "$part" "$file" || true
    rm -f "$part"
    if [[ ! -e $file ]]; then die "$file: cannot be written. Choose another folder with --study"; fi
  fi
  if ! grep -q "\"kind\": *\"$kind\"" "$file"; then die "$file: this file lists runs of another kind of study, not $kind. Choose another folder with --study"; fi
}

# scaling_arguments KIND ARGS...: sets `arguments` to those of `rossby train` for the ranks of this job. A run
# directory below the folder of --study is named by ranks, time groups, stages and seed (of a job array, or of
# --set train.seed), as in jobscripts/scaling.
scaling_arguments() {
  local kind=$1 ranks=${SLURM_NTASKS:-1} seed='' groups=1 stages=1 study='' run='' word i keys=()
  shift
  arguments=()
  while (($# > 0)); do
    case $1 in
      --study) study=${2:?--study needs a folder} && shift ;;
      --study=*) study=${1#--study=} ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  run=$(run_of "${arguments[@]}")
  for ((i = 0; i < ${#arguments[@]}; ++i)); do
    word=${arguments[i]#--set=}
    case $word in
      parallel.time_groups=*) groups=${word#*=} ;;
      parallel.stages=*) stages=${word#*=} ;;
      train.seed=*) seed=${word#*=} ;;
    esac
    if [[ $kind == weak && $word =~ ranks\} ]]; then
      if [[ $word == *=* ]]; then keys+=("${word%%=*}"); fi
      arguments[i]=$(filled "${arguments[i]}" "$ranks")
    fi
  done
  if [[ -n $run && -n $study ]]; then die "--run and --study exclude each other. Give only one of these options"; fi
  if [[ -n $run ]]; then return; fi
  if [[ -z $study ]]; then return 1; fi
  if [[ $kind == weak && ${#keys[@]} == 0 ]]; then die "a weak study needs something that grows with the ranks. Give --set 'KEY=…{ranks}…'"; fi
  if [[ -z $seed ]]; then
    seed=${SLURM_ARRAY_TASK_ID:-1}
    arguments+=(--set "train.seed=$seed")
  fi
  if [[ ${ROSSBY_DRY_RUN:-0} != 1 ]]; then
    mkdir -p "$study" || die "--study $study: this folder cannot be made. Choose another folder"
    write_study "$study" "$kind" "${keys[@]}"
  fi
  if [[ $stages == 1 ]]; then stages=''; fi
  arguments+=(--run "$study/ranks-${ranks}_groups-${groups}${stages:+_stages-$stages}_seed-$seed")
}
