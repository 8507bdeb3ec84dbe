#!/usr/bin/env bash
# test_consumer.sh BUILD_DIR CONSUMER_DIR CMAKE GENERATOR CXX WITH_MPI SANITIZE_FLAG MPIEXEC
# Installs BUILD_DIR to a temporary prefix, builds CONSUMER_DIR against it and runs what came out.
set -euo pipefail

build=$1 consumer=$2 cmake=$3 generator=$4 cxx=$5 with_mpi=$6 sanitize=$7 mpiexec=${8:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ $sanitize == "-fsanitize=" ]]; then sanitize=; fi

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/install.log" || {
  cat "$work/install.log"
  echo "cannot install: is $build built?"
  exit 1
}
# The installed package must stand alone: no path of the source or build tree in it.
if grep -rn --include='*.cmake' -e "$build" "$work/prefix"; then
  echo "the package names the build tree"
  exit 1
fi
"$cmake" -S "$consumer" -B "$work/build" -G "$generator" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$sanitize" -DCONSUMER_WITH_MPI="$with_mpi"
"$cmake" --build "$work/build"
"$work/build/consumer"
if [[ $with_mpi == 1 ]]; then
  "$work/build/consumer_mpi"
  cp "$consumer/heat.toml" "$work"
  "$mpiexec" -n 2 "$work/build/consumer_run" "$work"
fi
if [[ -x $work/prefix/bin/rossby ]]; then "$work/prefix/bin/rossby" --version; fi
