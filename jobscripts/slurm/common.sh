# shellcheck shell=bash
# Shared by the Slurm job scripts: the machine's settings, a record of the job, a training that resumes.
# Sourced.
#
# ROSSBY_MACHINE=NAME|FILE  settings of the cluster: jobscripts/machines/NAME.sh, or a file (default generic)
# ROSSBY_PROGRAM=FILE|NAME  the program; a bare name is looked up in PATH (default: the machine's, else
#                           build/release/apps/rossby of this tree, else the rossby of PATH)
# ROSSBY_MAX_RESTARTS=N     number of times a job requeues itself (default 1000)
# ROSSBY_MAX_HANGS=N        number of these in a row after a rank that hung (default 3)
# ROSSBY_DRY_RUN=1          print the commands, run nothing (scripts: --dry-run)

set -euo pipefail

rossby_exit_resume=75 # the program wrote a checkpoint and stopped before its end
rossby_exit_hung=76   # its watchdog ended it because a rank hung

# Slurm's signal before the limit may come up to a minute early, even at the very start of a job.
rossby_signalled=0
trap 'rossby_signalled=1' USR1

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# load_machine ROOT: settings, modules, program.
load_machine() {
  local root=$1 machine=${ROSSBY_MACHINE:-generic}
  rossby_modules=() rossby_launcher=srun rossby_srun_options=() rossby_mpirun_options=() rossby_program=''
  if [[ $machine != */* ]]; then machine=$root/jobscripts/machines/$machine.sh; fi
  if [[ ! -r $machine ]]; then
    die "$machine: these settings of the machine cannot be read. Set ROSSBY_MACHINE to a name in $root/jobscripts/machines, or to a file"
  fi
  # shellcheck source=../machines/generic.sh
  . "$machine"
  case $rossby_launcher in
    srun | mpirun) ;;
    *) die "$machine: rossby_launcher is '$rossby_launcher', but must be srun or mpirun" ;;
  esac
  rossby_program=${ROSSBY_PROGRAM:-$rossby_program}
  if ((${#rossby_modules[@]} > 0)); then
    if type module >/dev/null 2>&1; then
      module load "${rossby_modules[@]}"
    elif [[ ${ROSSBY_DRY_RUN:-0} != 1 ]]; then
      die "$machine needs modules (${rossby_modules[*]}), but there is no module command on $(hostname). If the program needs no modules, empty rossby_modules in this file"
    fi
  fi
  find_program "$root"
  if declare -F rossby_environment >/dev/null; then rossby_environment; fi
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
  export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
}

# find_program ROOT: sets `rossby_program` to the program's file, which modules may have provided.
find_program() {
  local built=$1/build/release/apps/rossby
  if [[ -z $rossby_program ]]; then
    rossby_program=$built
    if [[ ! -x $built ]] && type -P rossby >/dev/null; then rossby_program=$(type -P rossby); fi
  elif [[ $rossby_program != */* ]] && type -P "$rossby_program" >/dev/null; then
    rossby_program=$(type -P "$rossby_program")
  fi
}

# launcher: sets `launch` to the command before the program, with the ranks of the job. Ranks survive a signal
# that comes before they handle it.
launcher() {
  local cpus=${SLURM_CPUS_PER_TASK:-1}
  launch=()
  if [[ $rossby_launcher == srun ]]; then
    launch=(srun --ntasks="${SLURM_NTASKS:-1}" --cpus-per-task="$cpus" "${rossby_srun_options[@]}")
    # Every rank sees all GPUs of its node; the program assigns them.
    if [[ -n ${SLURM_GPUS_ON_NODE:-} ]]; then launch+=(--gpu-bind=none); fi
  else
    launch=(mpirun -n "${SLURM_NTASKS:-1}" "${rossby_mpirun_options[@]}")
  fi
  # shellcheck disable=SC2016  # expanded by each rank
  launch+=(bash -c 'trap "" USR1; exec "$0" "$@"')
}

# describe_job ROOT: prints what a reader of the log needs to repeat the run.
describe_job() {
  local root=$1
  say "job ${SLURM_JOB_ID:-none}${SLURM_ARRAY_TASK_ID:+ (task $SLURM_ARRAY_TASK_ID)}, start ${SLURM_RESTART_COUNT:-0}, $(date -u '+%Y-%m-%dT%H:%M:%SZ')"
  say "nodes ${SLURM_JOB_NODELIST:-$(hostname)}, ${SLURM_NTASKS:-1} ranks x ${SLURM_CPUS_PER_TASK:-1} cores, GPUs a node: ${SLURM_GPUS_ON_NODE:-0}"
  say "ends at $(if [[ -n ${SLURM_JOB_END_TIME:-} ]]; then date -u -d "@$SLURM_JOB_END_TIME" '+%Y-%m-%dT%H:%M:%SZ'; else echo unknown; fi)"
  say "tree $root, commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
  say "program $rossby_program"
  say "launch ${launch[*]}"
  say "threads OMP_NUM_THREADS=$OMP_NUM_THREADS OPENBLAS_NUM_THREADS=$OPENBLAS_NUM_THREADS"
  say "modules $(if type module >/dev/null 2>&1; then module -t list 2>&1 | tr '\n' ' '; else echo none; fi)"
  env | grep -E '^(OMPI|PMIX|SLURM_PMIX|UCX|NCCL|CUDA|SLURM_CPU_BIND|SLURM_DISTRIBUTION)' | LC_ALL=C sort || true
}

# Exports the job's time limit, for programs that stop in time. Older versions of Slurm do not set it.
export_end_time() {
  if [[ -z ${SLURM_JOB_ID:-} ]]; then return; fi
  local end=${SLURM_JOB_END_TIME:-}
  # A time in the past belongs to the job from which this one was submitted.
  if [[ $end =~ ^[0-9]+$ ]] && ((end > $(date +%s))); then return; fi
  end=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -nE 's/.* EndTime=([0-9T:-]+).*/\1/p' | head -n 1)
  if [[ -n $end ]]; then
    SLURM_JOB_END_TIME=$(date -d "$end" +%s)
    export SLURM_JOB_END_TIME
  fi
}

# come_back WHY: requeues the job; Slurm then ends this shell.
come_back() {
  local restarts=${SLURM_RESTART_COUNT:-0}
  if ((restarts >= ${ROSSBY_MAX_RESTARTS:-1000})); then
    die "restarted $restarts times (ROSSBY_MAX_RESTARTS), so that the job ends. The checkpoint is kept. To go on, submit the job again"
  fi
  say "$1: requeue"
  scontrol requeue "$SLURM_JOB_ID"
  # Slurm kills the batch step of a requeued job.
  sleep 60
  exit "$rossby_exit_resume"
}

# run_of ARGS...: prints the run directory among the arguments of a training.
run_of() {
  while (($# > 0)); do
    case $1 in
      --run) printf '%s\n' "${2:-}" && return ;;
      --run=*) printf '%s\n' "${1#--run=}" && return ;;
    esac
    shift
  done
}

# after_a_hang RUN: requeues the job unless too many earlier starts hung as well.
after_a_hang() {
  local file=$1/.hangs hangs=0
  if [[ -r $file ]]; then hangs=$(<"$file"); fi
  hangs=$((hangs + 1))
  if ((hangs > ${ROSSBY_MAX_HANGS:-3})); then
    rm -f "$file"
    say "a rank hung in $hangs starts in a row (ROSSBY_MAX_HANGS), so that the job is not requeued. The newest checkpoint is kept"
    return
  fi
  if [[ -d $1 ]]; then printf '%s\n' "$hangs" >"$file"; fi
  come_back "a rank hung ($hangs in a row)"
}

# train ARGS...: runs `rossby train ARGS`, resuming from its checkpoints. A signal before the limit makes it
# write one and requeues the job. A cancelled job writes one, too, and is not requeued.
train() {
  local command=("${launch[@]}" "$rossby_program" train "$@" --resume auto) status=0 cancelled=0 child
  if [[ ${ROSSBY_DRY_RUN:-0} == 1 ]]; then
    printf 'would run:'
    printf ' %q' "${command[@]}"
    printf '\n'
    return 0
  fi
  if [[ $rossby_program != */* ]]; then
    die "no program $rossby_program on the PATH. Name the file of the program with ROSSBY_PROGRAM, or its module in the settings of the machine"
  fi
  if [[ ! -x $rossby_program || -d $rossby_program ]]; then
    die "$rossby_program: there is no such program. Build the program with jobscripts/local/demo.sh, or set ROSSBY_PROGRAM"
  fi
  "${command[@]}" &
  child=$!
  trap 'rossby_signalled=1' USR1
  trap 'cancelled=1; kill -TERM "$child" 2>/dev/null || true' TERM
  # A trapped signal ends `wait` early. The launcher passes USR1 to every rank. Ranks that do not handle it
  # yet ignore it, so it is sent until they leave.
  while kill -0 "$child" 2>/dev/null; do
    status=0
    if ((rossby_signalled)); then
      kill -USR1 "$child" 2>/dev/null || true
      sleep 3 &
      wait -n "$child" "$!" || true
    else
      wait "$child" || true
    fi
  done
  wait "$child" || status=$?
  trap - USR1 TERM
  local run
  run=$(run_of "$@")
  if ((status == rossby_exit_hung && cancelled == 0)); then after_a_hang "$run"; fi
  rm -f "$run/.hangs"
  if ((status == rossby_exit_resume && cancelled == 0)); then come_back "the training is not at its end"; fi
  if ((status != 0)); then say "the training ended with exit code $status"; fi
  return "$status"
}
