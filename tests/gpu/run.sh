#!/usr/bin/env bash
# The tests that need a GPU, on a machine that has one: tests/gpu/run.sh --help
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/gpu/run.sh [OPTION...]

Builds lib/ and its tests with CUDA and without MPI, and runs the tests with the label gpu: once as they are, then
under each tool of compute-sanitizer. Needs nvcc, CMake and the libraries that lib/ needs (fmt, spdlog, nlohmann-json,
toml++, NetCDF, BLAS, LAPACK, GoogleTest), from the system or below --prefix.

  --prefix DIR      where CMake looks for libraries first; may be repeated
  --build DIR       build folder (default: build/gpu)
  --log DIR         where the logs go (default: the build folder)
  --arch LIST       GPU architectures, e.g. 90 (default: native)
  --tools LIST      tools of compute-sanitizer, commas between; none: no such run (default: memcheck,racecheck,initcheck)
  --programs DIR    run test programs that were built elsewhere (test_kernels_device, test_kernels_device_relate, test_data_device,
                    test_device_training, test_tensor) instead of building
  --mpi PREFIX      also train with the program rossby of --programs on 1, 2 and 4 ranks by PREFIX/bin/mpirun, and hold
                    the losses against each other and those of the CPU; measure the GPU with it, and hold plans of trainings
                    against what those take (errors are shown, not judged; memory is to be exact)

Exit code 0: all passed; 77: there is no GPU; other: something failed, and the last lines say what.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/gpu
log=
arch=native
tools=memcheck,racecheck,initcheck
programs=
mpi=
prefixes=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --prefix) prefixes+=("$2") && shift 2 ;;
    --build) build=$2 && shift 2 ;;
    --log) log=$2 && shift 2 ;;
    --arch) arch=$2 && shift 2 ;;
    --tools) tools=$2 && shift 2 ;;
    --programs) programs=$2 && shift 2 ;;
    --mpi) mpi=$2 && shift 2 ;;
    *) echo "error: unknown option $1 (see --help)" >&2 && exit 2 ;;
  esac
done
log=${log:-$build}
mkdir -p "$log"

if ! nvidia-smi -L >"$log/gpus.txt" 2>&1 || ! grep -q '^GPU ' "$log/gpus.txt"; then
  echo "skipped: there is no GPU here ($(head -1 "$log/gpus.txt"))"
  exit 77
fi
cat "$log/gpus.txt"

names=(test_tensor test_kernels_device test_kernels_device_relate test_data_device test_device_training)
if [[ -z $programs ]]; then
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DROSSBY_WITH_MPI=OFF -DROSSBY_WITH_CUDA=ON \
    -DROSSBY_BUILD_TESTS=ON -DCMAKE_CUDA_ARCHITECTURES="$arch" \
    -DCMAKE_PREFIX_PATH="$(IFS=';' && echo "${prefixes[*]}")" >"$log/configure.txt" 2>&1 ||
    { tail -20 "$log/configure.txt" && exit 1; }
  cmake --build "$build" -j "$(nproc)" --target "${names[@]}" >"$log/build.txt" 2>&1 ||
    { grep -E 'error|FAILED' "$log/build.txt" | head -20 && exit 1; }
  programs=$log/programs
  mkdir -p "$programs"
  for name in "${names[@]}"; do find "$build/tests" -name "$name" -type f -exec cp {} "$programs" \;; done
fi

failed=()
run() { # run NAME COMMAND...: keeps the output, shows its end
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$log/$name.txt" 2>&1; then
    echo "passed  $name ($((SECONDS - start)) s)"
  else
    echo "FAILED  $name ($((SECONDS - start)) s):"
    tail -15 "$log/$name.txt"
    failed+=("$name")
  fi
}

for name in "${names[@]}"; do
  filter='--gtest_filter=Gpu/*'
  if [[ $name == test_tensor ]]; then filter='--gtest_filter=Cuda*:Device*'; fi
  run "$name" "$programs/$name" "$filter"
  if [[ $tools == none || $name == test_tensor ]]; then continue; fi
  for tool in ${tools//,/ }; do
    run "$name.$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 "$programs/$name" "$filter"
  done
done

if [[ -n $mpi ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$programs/rossby" data synth -o "$work/data.nc" --lat 12 --lon 14 --steps 80 >/dev/null
  cat >"$work/run.toml" <<TOML
[data]
file = "$work/data.nc"
center = "node"
[split]
train = "60"
validation = "10"
test = "rest"
[relation]
graph = "grid8"
mode = "refine"
discover = "low_rank"
[model]
name = "stnn"
latent = 2
precision = "double"
[train]
epochs = 4
TOML
  # losses NAME SETTINGS MORE RANKS...: the loss of the CPU on one rank, and that of the GPU on so many, which takes MORE settings.
  losses() {
    local name=$1 settings=$2 more=$3 ranks device sets
    shift 3
    : >"$work/losses"
    for ranks in 0 "$@"; do
      device=cuda
      read -ra sets <<<"$settings $more"
      if ((ranks == 0)); then
        device=cpu
        read -ra sets <<<"$settings"
      fi
      run "$name.$device.np$ranks" "$mpi/bin/mpirun" -n $((ranks == 0 ? 1 : ranks)) "$programs/rossby" train \
        "$work/run.toml" --run "$work/$name$ranks" --device "$device" "${sets[@]/#/--set=}"
      sed -n '$s/.*"loss":\([^,]*\),.*/\1/p' "$work/$name$ranks/metrics.jsonl" >>"$work/losses"
    done
    cat "$work/losses"
    # shellcheck disable=SC2016
    run "$name.losses" awk 'NR == 1 { first = $1 } { d = ($1 - first) / first; if (d < 0) d = -d; if (d > 1e-9) exit 1 }
      END { if (NR < 2) exit 1 }' "$work/losses"
  }
  losses train "" "" 1 2 4
  losses graphs "" parallel.cuda_graphs=true 1 2
  losses self relation.self=true "" 2
  losses windows "model.name=dcrnn relation.mode=given relation.discover=none window.batch=8" "" 1 2
  losses cusparse "model.name=dcrnn relation.mode=given relation.discover=none window.batch=8" parallel.sparse_products=cusparse 1
  losses pairs "train.sampling=pairs train.pairs=500" "" 1 2
  losses groups train.lanes=2 parallel.time_groups=2 2 4

  run calibrate "$mpi/bin/mpirun" -n 1 "$programs/rossby" calibrate -o "$log/machine.json" --device cuda
  planned=()
  for name in slabs dense dcrnn; do
    sets=(model.precision=float train.epochs=20)
    if [[ $name == dense ]]; then sets+=(relation.graph=none relation.discover=dense model.latent=8); fi
    if [[ $name == dcrnn ]]; then sets=(model.name=dcrnn model.precision=float relation.mode=given relation.discover=none train.epochs=4 parallel.sparse_products=own); fi
    run "plan.$name" "$mpi/bin/mpirun" -n 1 "$programs/rossby" train "$work/run.toml" --run "$log/plan_$name" --device cuda \
      --machine "$log/machine.json" --resume never "${sets[@]/#/--set=}"
    planned+=("$log/plan_$name")
  done
  run plan.check "$programs/rossby" plan --check "${planned[@]}"
  cat "$log/plan.check.txt"
  # The last column but one: the error of the planned memory, per cent.
  # shellcheck disable=SC2016
  run plan.memory awk 'NR > 1 && !/runs:/ { if ($(NF - 1) != "0.0" && $(NF - 1) != "-0.0") exit 1 }' "$log/plan.check.txt"
fi

if ((${#failed[@]} > 0)); then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all passed; logs in $log"
