#!/usr/bin/env bash
# Checks that every shell script of the tree parses, is executable if it has a "#!", and satisfies shellcheck
# if that is installed. Usage: check_scripts.sh ROOT
set -euo pipefail

cd "$1"
failures=0
fail() {
  echo "$*"
  failures=$((failures + 1))
}

scripts=()
while IFS= read -r file; do
  if head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh\b' || [[ $file == *.sh || $file == *.sbatch ]]; then scripts+=("$file"); fi
done < <(find .ci apps benchmarks jobscripts tests -type f -size -200k 2>/dev/null | LC_ALL=C sort)
if ((${#scripts[@]} < 4)); then fail "found only ${#scripts[@]} scripts below $1: looked in the wrong place?"; fi

for file in "${scripts[@]}"; do
  bash -n "$file" || fail "$file: does not parse"
  # Sourced files have no "#!" and need not be executable.
  if head -n 1 "$file" | grep -q '^#!' && [[ ! -x $file ]]; then fail "$file: has a #! line but is not executable"; fi
done

if command -v shellcheck >/dev/null; then
  shellcheck --external-sources --source-path=SCRIPTDIR --shell=bash "${scripts[@]}" || fail "shellcheck has complaints"
else
  echo "shellcheck is not installed: only parsed the scripts"
fi

if ((failures > 0)); then exit 1; fi
echo "${#scripts[@]} scripts are in order"
