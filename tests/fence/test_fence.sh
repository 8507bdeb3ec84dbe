#!/usr/bin/env bash
# Tests the fence itself: on a small made-up tree it is silent, and each violation, put in alone, makes it fail with
# a line that names the file.
set -euo pipefail

fence=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/fence.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# The folders that the fence wants filled, read from the script: the list stays in one place.
read -r -a filled <<<"$(sed -nE 's/^readonly filled=\((.*)\)$/\1/p' "$fence")"
if ((${#filled[@]} < 9)); then
  echo "cannot read the list of filled folders from $fence"
  exit 1
fi

make_tree() {
  rm -rf "$work/tree"
  local folder
  for folder in "${filled[@]}"; do
    mkdir -p "$work/tree/$folder"
    printf '#pragma once\n#include <vector>\n' >"$work/tree/$folder/good.hpp"
  done
  mkdir -p "$work/tree/lib/rossby/kernels/cuda" "$work/tree/tests/support"
  touch "$work/tree/lib/rossby/base/error.hpp" "$work/tree/lib/rossby/tensor/view.hpp" \
    "$work/tree/lib/rossby/exchange/exchange.hpp" "$work/tree/tests/support/exit_code.hpp"
}

# expect CODE PATTERN NAME: runs the fence on the tree.
expect() {
  local code=$1 pattern=$2 name=$3 output status=0
  output=$("$fence" "$work/tree" 2>&1) || status=$?
  if [[ $status -ne $code ]]; then
    printf 'FAIL %s: exit code %d, not %d\n%s\n' "$name" "$status" "$code" "$output"
    failures=$((failures + 1))
  elif ! grep -qE -- "$pattern" <<<"$output"; then
    printf 'FAIL %s: no line matches %s\n%s\n' "$name" "$pattern" "$output"
    failures=$((failures + 1))
  else
    printf 'ok   %s\n' "$name"
  fi
}

# forbid FILE LINE / allow FILE LINE: a tree whose only special line is LINE in FILE.
forbid() {
  make_tree
  mkdir -p "$work/tree/$(dirname "$1")"
  printf '// one\n%s\n' "$2" >"$work/tree/$1"
  expect 1 "^$1:2: " "forbidden: $2 in $1"
}

allow() {
  make_tree
  mkdir -p "$work/tree/$(dirname "$1")"
  printf '// one\n%s\n' "$2" >"$work/tree/$1"
  expect 0 'keep to their rooms' "allowed: $2 in $1"
}

make_tree
expect 0 'keep to their rooms' 'a clean tree'

forbid lib/rossby/base/x.cpp '#include <mpi.h>'
forbid lib/rossby/base/x.cpp '  #  include   "mpi.h"'
forbid lib/rossby/io/x.hpp '#include <petscsf.h>'
forbid lib/rossby/io/x.cpp '#include <hdf5.h>'
forbid lib/rossby/data/x.cpp '#include <H5public.h>'
forbid lib/rossby/data/x.cpp '#include <nccl.h>'
forbid lib/rossby/kernels/x.cpp '#include <cuda_runtime.h>'
forbid lib/rossby/kernels/cpu/x.cpp '#include <cublas_v2.h>'
forbid tests/lib/x.cpp '#include <mpi.h>'
forbid tests/lib/x.cpp '#include "rossby/mpi/environment.hpp"'
forbid lib/rossby/base/x.hpp '#include "rossby/tensor/view.hpp"'
forbid lib/rossby/tensor/x.hpp '#include "rossby/io/config.hpp"'
forbid lib/rossby/exchange/x.hpp '#include "rossby/kernels/exec.hpp"'
forbid lib/rossby/kernels/cuda/x.cu '#include "rossby/autograd/tape.hpp"'
forbid lib/rossby/autograd/x.cpp '#include <rossby/data/series.hpp>'
forbid lib/rossby/data/x.cpp '#include "rossby/mpi/environment.hpp"'
forbid lib/rossby/data/x.cpp '#include "rossby/attic/x.hpp"'
forbid lib/rossby/data/x.cpp '#include "../base/error.hpp"'
forbid lib/rossby/data/x.cpp '#include "lib/base/error.hpp"'
forbid lib/rossby/data/x.cpp '#include "apps/command.hpp"'
forbid lib/rossby/data/x.cpp '#include "tests/support/exit_code.hpp"'
forbid lib/rossby/data/x.cpp '#include HIDDEN_NAME'
forbid lib/rossby/data/x.cpp '#include "rossby/base/missing.hpp"'
forbid lib/rossby/data/x.cpp '#include <rossby/base/missing.hpp>'
forbid apps/x.cpp '#include "generated.hpp"'
forbid apps/x.cpp '#include <mpi.h>'
forbid run/rossby/run/x.cpp '#include <mpi.h>'
forbid run/rossby/run/x.cpp '#include "apps/good.hpp"'
forbid lib/rossby/plan/x.cpp '#include "rossby/run/good.hpp"'
forbid mpi/rossby/mpi/x.cpp '#include "rossby/run/good.hpp"'
forbid tests/lib/x.cpp '#include "rossby/run/good.hpp"'
forbid run/rossby/run/x.cpp 'MPI_Comm_compare(a, b, &same);'
forbid run/rossby/run/x.hpp 'void join(MPI_Comm comm);'
forbid apps/commands/x.cpp '  const int size = PMPI_Comm_size(comm);'
forbid tests/run/x.cpp '#include <mpi.h>'
allow run/rossby/run/x.cpp 'const bool on = ROSSBY_WITH_MPI;'
allow mpi/rossby/mpi/x.cpp 'MPI_Barrier(comm);'
allow tests/mpi/x.cpp 'MPI_Barrier(comm);'
allow run/rossby/run/x.cpp '#include "rossby/mpi/good.hpp"'
allow apps/x.cpp '#include "rossby/run/good.hpp"'
forbid apps/x.cpp '#include "apps/missing.hpp"'

allow lib/rossby/tensor/x.hpp '#include "rossby/base/error.hpp"'
allow lib/rossby/tensor/x.hpp '#include "rossby/tensor/view.hpp"'
allow lib/rossby/autograd/x.cpp '#include "rossby/exchange/exchange.hpp"'
allow lib/rossby/kernels/cuda/x.cu '#include <cuda_runtime.h>'
allow lib/rossby/tensor/buffer_cuda.cpp '#include <cuda_runtime.h>'
allow lib/rossby/base/x.cpp '// #include <mpi.h>'
allow mpi/rossby/mpi/x.cpp '#include <petscsf.h>'
allow mpi/rossby/mpi/exchange_nccl.cpp '#include <cuda_runtime.h>'
allow tests/mpi/x.cpp '#include <mpi.h>'
forbid mpi/rossby/mpi/x.cpp '#include <cuda_runtime.h>'
forbid mpi/rossby/mpi/x.cpp '#include "apps/command.hpp"'
allow tests/lib/x.cpp '#include "tests/support/exit_code.hpp"'

make_tree
rm -r "$work/tree/lib/rossby/relation"
expect 1 '^lib/rossby/relation: the folder is missing' 'a missing room'

make_tree
rm "$work/tree/lib/rossby/relation/good.hpp"
expect 1 '^lib/rossby/relation: no source' 'an empty room'

make_tree
mkdir "$work/tree/lib/rossby/attic"
touch "$work/tree/lib/rossby/attic/x.hpp"
expect 1 '^lib/rossby/attic: not a room' 'a folder of lib/ that is no room'

make_tree
for _ in $(seq 451); do echo '//'; done >"$work/tree/lib/rossby/base/long.hpp"
expect 0 '^lib/rossby/base/long.hpp: note: 451 lines' 'a long file is noted, not refused'

if ((failures > 0)); then
  printf '%d of the checks failed\n' "$failures"
  exit 1
fi
