#!/usr/bin/env bash
# The first look at a GPU that is there for minutes only: tests/gpu/six_minutes.sh --help
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/gpu/six_minutes.sh --programs DIR --log DIR [--mpirun COMMAND] [--seconds N] [--device cuda|simulated]

Runs tests and measurements with programs that were built elsewhere, in order of what is missed most: the tests of
tests/gpu/run.sh, one memcheck of the tests of kernels, then bench_kernels, bench_step, bench_windows and the peers of
benchmarks/gpu --quick, and streamed relations at last. Each part has a limit of time, and writes its logs as it goes: one
that hangs is lost alone.

  --programs DIR     folder with the programs of tests/gpu/run.sh, and bench_kernels, bench_step, bench_windows
  --log DIR          where logs and results go; summary.txt has a line a part
  --mpirun COMMAND   what starts one rank for bench_windows, for example "mpirun -n 1" (default: that part is left out)
  --seconds N        for all parts together (default: 360); their limits are shares of it
  --device NAME      simulated: small sizes on simulated devices, to try this script without a GPU; no tests, no memcheck

Exit code 0: all parts passed; 77: there is no GPU; 2: an option is wrong; 1: the summary names the parts that failed.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs='' log='' mpirun='' seconds=360 device=cuda
refuse() {
  echo "error: $* (see --help)" >&2
  exit 2
}
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --programs | --log | --mpirun | --seconds | --device)
      if (($# < 2)) || [[ -z $2 || $2 == --* ]]; then refuse "$1 needs a value"; fi
      ;;&
    --programs) programs=$2 ;;
    --log) log=$2 ;;
    --mpirun) mpirun=$2 ;;
    --seconds) seconds=$2 ;;
    --device) device=$2 ;;
    *) refuse "unknown option $1" ;;
  esac
  shift 2
done
if [[ ! -d $programs ]]; then refuse "--programs $programs: no such folder"; fi
if [[ -z $log ]]; then refuse "--log names the folder for logs and results"; fi
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then refuse "--seconds $seconds: a whole number of seconds above 0"; fi
if [[ $device != cuda && $device != simulated ]]; then refuse "--device $device: cuda or simulated"; fi

mkdir -p "$log"
: >"$log/summary.txt"
end=$((SECONDS + seconds)) failed=()
say() { printf '%s\n' "$*" | tee -a "$log/summary.txt"; }
# part NAME SHARE COMMAND...: at most SHARE per cent of all seconds, and what is left of them.
part() {
  local name=$1 limit=$((seconds * $2 / 100)) start=$SECONDS code=0
  shift 2
  limit=$((limit < end - SECONDS ? limit : end - SECONDS))
  if ((limit <= 0)); then
    say "FAILED  $name: no time was left"
    failed+=("$name")
    return
  fi
  timeout -k 5 "$limit" "$@" >"$log/$name.txt" 2>&1 || code=$?
  case $code in
    0) say "passed  $name ($((SECONDS - start)) s)" ;;
    124 | 137) say "FAILED  $name: stopped after $limit s; $log/$name.txt has what it said till then" ;;
    *) say "FAILED  $name: exit code $code after $((SECONDS - start)) s; the end of $log/$name.txt: $(tail -1 "$log/$name.txt")" ;;
  esac
  if ((code != 0)); then failed+=("$name"); fi
}
measure() { # measure NAME SHARE: a part of benchmarks/gpu; half of its time for each of its programs
  local name=$1 share=$2 each=$((seconds * $2 / 100 / 2))
  shift 2
  part "$name" "$share" "$root/benchmarks/gpu" --programs "$programs" --out "$log/measured" --device "$device" --quick \
    --seconds $((each > 0 ? each : 1)) --only "$name" "$@"
}

if [[ $device == cuda ]]; then
  if ! nvidia-smi -L >"$log/gpus.txt" 2>&1 || ! grep -q '^GPU ' "$log/gpus.txt"; then
    say "skipped: there is no GPU here ($(head -1 "$log/gpus.txt"))"
    exit 77
  fi
  say "$(cat "$log/gpus.txt")"
  tests=("$root/tests/gpu/run.sh" --programs "$programs")
  part tests 20 "${tests[@]}" --log "$log/tests" --tools none --seconds $((seconds / 10 + 1))
  part memcheck 20 "${tests[@]}" --log "$log/memcheck" --tools memcheck --only test_kernels_device
fi
measure kernels 12
measure steps 12
if [[ -n $mpirun ]]; then
  measure windows 20 --mpirun "$mpirun"
else
  say "left out  windows: --mpirun says how to start a rank"
fi
if [[ $device == cuda ]]; then measure peer 6; fi
measure streamed 10
# One table of all that was measured; nothing is run again.
"$root/benchmarks/gpu" --programs "$programs" --out "$log/measured" --device "$device" --show \
  >"$log/tables.txt" 2>&1 || true

if ((${#failed[@]} > 0)); then
  say "failed: ${failed[*]}"
  exit 1
fi
say "all passed; logs in $log, tables in $log/tables.txt"
