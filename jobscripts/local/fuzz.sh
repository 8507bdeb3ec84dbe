#!/usr/bin/env bash
# Builds the fuzz targets and runs one of them, or all.
set -euo pipefail

targets=(config time netcdf netcdf_classic parts zarr edges tables state)

usage() {
  cat <<TEXT
usage: jobscripts/local/fuzz.sh TARGET|all SECONDS [LIBFUZZER OPTION...]

Installs clang 19 if it is missing (Debian packages), builds preset fuzz, and runs one target. With all, runs all targets,
ROSSBY_JOBS at a time (default: the cores of this machine).

  TARGET     ${targets[*]}
  SECONDS    time of each target

New inputs that reach more code are kept in build/fuzz/corpus/TARGET, and the next run uses these inputs again. An input that
fails is kept in build/fuzz/findings/TARGET, and ends the run with a non-zero exit code. To repeat a failure, run
build/fuzz/tests/fuzz/fuzz_TARGET FILE (state: build/fuzz/tests/mpi/fuzz_state FILE).

environment: as for jobscripts/local/test.sh
TEXT
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  usage
  exit 0
fi
if (($# < 2)) || ! [[ $2 =~ ^[0-9]+$ ]] || [[ $1 != all && " ${targets[*]} " != *" $1 "* ]]; then
  usage >&2
  exit 2
fi
if [[ $1 != all ]]; then targets=("$1"); fi
seconds=$2
shift 2

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ensure_packages "${rossby_build_packages[@]}" "${rossby_fuzz_packages[@]}"
build_preset fuzz fuzzers
mpi_settings 1
# Look for leaks once, at the end: a check after every input would take most of the time. Open MPI keeps its
# allocations.
export LSAN_OPTIONS=suppressions=$rossby_root/tests/support/lsan.supp:print_suppressions=0

folder=$rossby_root/build/fuzz
fuzz_one() {
  local target=$1 program=$folder/tests/fuzz/fuzz_$1 asan=detect_leaks=1 status=0
  shift
  if [[ $target == state ]]; then
    program=$folder/tests/mpi/fuzz_state
    asan=detect_leaks=0
  fi
  mkdir -p "$folder/corpus/$target" "$folder/findings/$target"
  say "fuzzing $target for $seconds s"
  ASAN_OPTIONS=$asan timeout $((seconds + 120)) "$program" -max_total_time="$seconds" -max_len=4096 -timeout=20 \
    -detect_leaks=0 -print_final_stats=1 -artifact_prefix="$folder/findings/$target/" "$@" \
    "$folder/corpus/$target" "$rossby_root/tests/fuzz/corpus/$target" >"$folder/logs/fuzz_$target.log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 60 "$folder/logs/fuzz_$target.log" >&2
    die "$target ended with exit code $status; all of its output is in $folder/logs/fuzz_$target.log"
  fi
  say "$target: $(grep -aoE '(number_of_executed_units|peak_rss_mb): *[0-9]+' "$folder/logs/fuzz_$target.log" | tr -s '\n ' ' ')"
}

# A target is one process; run as many at once as there are jobs.
failed=0
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= rossby_jobs)); do wait -n || failed=1; done
  fuzz_one "$target" "$@" &
done
while (($(jobs -p | wc -l) > 0)); do wait -n || failed=1; done
exit "$failed"
