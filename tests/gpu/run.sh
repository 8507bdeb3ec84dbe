#!/usr/bin/env bash
# The tests that need a GPU, on a machine that has one: tests/gpu/run.sh --help
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/gpu/run.sh [OPTION...]

Builds lib/ and its tests with CUDA and without MPI, and runs the tests with the label gpu: once as they are, then
under each tool of compute-sanitizer. Needs nvcc, CMake and the libraries that lib/ needs (fmt, nlohmann-json,
toml++, NetCDF, BLAS, LAPACK, GoogleTest), from the system or below --prefix.

  --prefix DIR      where CMake looks for libraries first; may be repeated
  --build DIR       build folder (default: build/gpu); the program rossby is built in its folder with_mpi
  --log DIR         where the logs go (default: the build folder); summary.txt has the lines that are shown
  --arch LIST       GPU architectures, e.g. 90 (default: native)
  --tools LIST      tools of compute-sanitizer, commas between; none: no such run (default: memcheck,racecheck,initcheck)
  --only LIST       the programs of tests that are run, commas between (default: all)
  --seconds N       stop a program, a tool's run or a training that takes longer, as failed (default: no limit)
  --programs DIR    run programs that were built elsewhere (test_kernels_device, test_kernels_device_relate, test_data_device,
                    test_device_training, test_diffusion_device, test_tensor; with --mpi also rossby) instead of building
  --mpi PREFIX      also build rossby with PREFIX/bin/mpicxx (it needs PETSc, parallel HDF5, PT-Scotch and CLI11, too, from PREFIX,
                    --prefix or the system), train with it on 1, 2 and 4 ranks by PREFIX/bin/mpirun, and hold the losses
                    against each other and those of the CPU, each training once under memcheck on one rank; measure the GPU
                    with it, and hold plans of trainings against what those take (errors are shown, not judged; memory is
                    to be exact)

Exit code 0: all passed; 77: there is no GPU; 2: an option is wrong; other: something failed or was missing, and the last
lines say what.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/gpu
log=
arch=native
tools=memcheck,racecheck,initcheck
only=
seconds=
programs=
mpi=
prefixes=()
refuse() {
  echo "error: $* (see --help)" >&2
  exit 2
}
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --prefix | --build | --log | --arch | --tools | --only | --seconds | --programs | --mpi)
      if (($# < 2)) || [[ -z $2 || $2 == --* ]]; then refuse "$1 needs a value"; fi
      ;;&
    --prefix) prefixes+=("$2") ;;
    --build) build=$2 ;;
    --log) log=$2 ;;
    --arch) arch=$2 ;;
    --tools) tools=$2 ;;
    --only) only=$2 ;;
    --seconds) seconds=$2 ;;
    --programs) programs=$2 ;;
    --mpi) mpi=$2 ;;
    *) refuse "unknown option $1" ;;
  esac
  shift 2
done
if [[ -n $seconds && ! $seconds =~ ^[1-9][0-9]*$ ]]; then refuse "--seconds $seconds: a whole number of seconds above 0"; fi
names=(test_tensor test_kernels_device test_kernels_device_relate test_diffusion_device test_data_device test_device_training)
if [[ -n $only ]]; then
  for name in ${only//,/ }; do
    if [[ " ${names[*]} " != *" $name "* ]]; then refuse "--only $name: there are ${names[*]}"; fi
  done
  read -ra names <<<"${only//,/ }"
fi
if [[ -d $mpi ]]; then mpi=$(cd "$mpi" && pwd); fi
log=${log:-$build}
mkdir -p "$log"

if ! nvidia-smi -L >"$log/gpus.txt" 2>&1 || ! grep -q '^GPU ' "$log/gpus.txt"; then
  echo "skipped: there is no GPU here ($(head -1 "$log/gpus.txt"))"
  exit 77
fi

: >"$log/summary.txt"
failed=()
say() { printf '%s\n' "$*" | tee -a "$log/summary.txt"; }
fail() { # fail NAME WHY: in one line
  say "FAILED  $1: $2"
  failed+=("$1")
}
run() { # run NAME COMMAND...: keeps the output, shows its end
  local name=$1 start=$SECONDS code=0 limit=()
  shift
  # In the foreground, so that what ends this script ends the program as well.
  if [[ -n $seconds ]]; then limit=(timeout --foreground -k 5 "$seconds"); fi
  ${limit[@]+"${limit[@]}"} "$@" >"$log/$name.txt" 2>&1 || code=$?
  if ((code == 0)); then
    say "passed  $name ($((SECONDS - start)) s)"
  elif [[ -n $seconds ]] && ((code == 124 || code == 137)); then
    fail "$name" "stopped after $seconds s, the end of $log/$name.txt:"
    tail -15 "$log/$name.txt"
  else
    fail "$name" "after $((SECONDS - start)) s, the end of $log/$name.txt:"
    tail -15 "$log/$name.txt"
  fi
}
there() { # there NAME FILE HINT: whether it is a program; a failure where it is not
  if [[ -f $2 && -x $2 ]]; then return 0; fi
  fail "$1" "$2 is missing, or no program: $3"
  return 1
}
reason() { # reason LOG: what CMake stopped at, in one line
  awk '/^--.*[Pp]ackage .*not? found|^--.*[Nn]o package .* found/ { sub(/^-- */, ""); package = " (" $0 ")" }
    /^CMake Error/ && !begun { begun = 1; if (/^CMake Error: /) { ended = 1; text = $0 }; next }
    begun && /^[^ ]/ { ended = 1 }
    begun && !ended && NF { $1 = $1; text = text (text == "" ? "" : " ") $0 }
    begun && !NF && text != "" && text !~ /:$/ { ended = 1 }
    NF { last = $0 }
    END { print (text == "" ? last : text package) }' "$1"
}
compile() { # compile NAME FOLDER HINT TARGETS OPTION...: whether it could be built; the logs are NAMEconfigure.txt and NAMEbuild.txt
  local name=$1 folder=$2 hint=$3 targets error
  read -ra targets <<<"$4"
  shift 4
  if ! cmake -S "$root" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DROSSBY_WITH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$arch" "$@" \
    >"$log/${name}configure.txt" 2>&1; then
    fail "${name}configure" "$(reason "$log/${name}configure.txt")$hint"
    return 1
  fi
  if ! cmake --build "$folder" -j "$(nproc)" --target "${targets[@]}" >"$log/${name}build.txt" 2>&1; then
    error=$(grep -m 1 -E 'error|FAILED' "$log/${name}build.txt" || tail -1 "$log/${name}build.txt")
    fail "${name}build" "$error (more in $log/${name}build.txt)"
    return 1
  fi
}
joined() { (IFS=';' && echo "$*"); }

say "$(cat "$log/gpus.txt")"
if [[ $tools != none ]] && ! command -v compute-sanitizer >/dev/null; then
  fail compute-sanitizer "it is not in PATH: it comes with CUDA; --tools none does without"
  tools=none
fi
sanitized=(--error-exitcode 9 --print-limit 5)

built=$programs
if [[ -z $programs ]]; then
  built=$log/programs
  mkdir -p "$built"
  # Those of an earlier call are not to pass for these.
  for name in "${names[@]}"; do rm -f "$built/$name"; done
  if compile '' "$build" '' "${names[*]}" -DROSSBY_WITH_MPI=OFF -DROSSBY_BUILD_TESTS=ON \
    -DCMAKE_PREFIX_PATH="$(joined ${prefixes[@]+"${prefixes[@]}"})"; then
    for name in "${names[@]}"; do find "$build/tests" -name "$name" -type f -exec cp {} "$built" \;; done
  else
    names=()
  fi
fi

for name in "${names[@]}"; do
  there "$name" "$built/$name" "--programs takes a folder that has it" || continue
  filter='Gpu/*'
  options=("${sanitized[@]}")
  if [[ $name == test_tensor ]]; then
    # Most of it is about simulated devices; a test that is to die would count as an error of the tool.
    filter='Cuda*:Device*'
    options+=(--require-cuda-init no)
  fi
  run "$name" "$built/$name" "--gtest_filter=$filter"
  if [[ $tools == none ]]; then continue; fi
  for tool in ${tools//,/ }; do
    run "$name.$tool" compute-sanitizer --tool "$tool" "${options[@]}" "$built/$name" "--gtest_filter=$filter-*DeathTest*"
  done
done

# Sets `rossby`, the program, and `mpirun`. False, and a failure, where one of them is missing.
find_rossby() {
  local folder=$build/with_mpi
  local hint="; --programs takes a folder with a rossby that was built elsewhere"
  mpirun=$mpi/bin/mpirun rossby=$programs/rossby
  there mpi "$mpirun" "--mpi takes the folder whose bin has mpirun" || return 1
  if [[ -n $programs ]]; then
    there rossby "$rossby" "--programs takes a folder that has it; without --programs it is built"
    return
  fi
  there mpi.configure "$mpi/bin/mpicxx" "rossby cannot be built${hint}" || return 1
  rossby=$folder/apps/rossby
  # CMake keeps what it found: another PREFIX begins anew.
  grep -qs "^MPI_HOME:[A-Z]*=$mpi\$" "$folder/CMakeCache.txt" || rm -f "$folder/CMakeCache.txt"
  # Without the compilers CMake would take another MPI where it cannot use this one.
  local compilers=(-DMPI_CXX_COMPILER="$mpi/bin/mpicxx")
  if [[ -x $mpi/bin/mpicc ]]; then compilers+=(-DMPI_C_COMPILER="$mpi/bin/mpicc"); fi
  compile mpi. "$folder" "$hint" rossby -DROSSBY_WITH_MPI=ON -DROSSBY_BUILD_TESTS=OFF -DMPI_HOME="$mpi" "${compilers[@]}" \
    -DCMAKE_PREFIX_PATH="$(joined "$mpi" ${prefixes[@]+"${prefixes[@]}"})" || return 1
  there rossby "$rossby" "the build did not make it"
}

if [[ -n $mpi ]] && find_rossby; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  run data "$rossby" data synth -o "$work/data.nc" --lat 12 --lon 14 --steps 80
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
  # losses NAME SETTINGS MORE RANKS...: the loss of the CPU on one rank, and that of the GPU on so many, which takes MORE settings;
  # apart by no more than `within`.
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
      run "$name.$device.np$ranks" "$mpirun" -n $((ranks == 0 ? 1 : ranks)) "$rossby" train \
        "$work/run.toml" --run "$work/$name$ranks" --device "$device" "${sets[@]/#/--set=}"
      if [[ -f $work/$name$ranks/metrics.jsonl ]]; then
        sed -n '$s/.*"loss":\([^,]*\),.*/\1/p' "$work/$name$ranks/metrics.jsonl" >>"$work/losses"
      fi
    done
    cat "$work/losses"
    # shellcheck disable=SC2016
    run "$name.losses" awk -v most="${within:-1e-9}" -v wanted=$(($# + 1)) '
      NR == 1 { first = $1 } { d = ($1 - first) / first; if (d < 0) d = -d; if (!(d <= most)) exit 1 }
      END { if (NR != wanted) exit 1 }' "$work/losses"
    if [[ ,$tools, == *,memcheck,* ]]; then
      # One rank is one time group.
      read -ra sets <<<"$settings ${more//parallel.time_groups=2/} train.epochs=1"
      # A graph that an executable one does not take is refused, and one of its own is made: no error of a call.
      local reported=explicit
      if [[ $name == graphs ]]; then reported=no; fi
      run "$name.memcheck" "$mpirun" -n 1 compute-sanitizer --tool memcheck --report-api-errors $reported "${sanitized[@]}" "$rossby" train \
        "$work/run.toml" --run "$work/$name.memcheck" --device cuda "${sets[@]/#/--set=}"
    fi
  }
  # Adam's default epsilon of 1e-9 makes steps of gradients that are zero but for rounding.
  windows="model.name=dcrnn relation.mode=given relation.discover=none window.batch=8 optimiser.epsilon=1e-3"
  # Five chunks of the relation on one rank, of which two fit.
  dense="relation.graph=none relation.discover=dense relation.chunk_mib=0.05"
  streamed="relation.memory=streamed relation.stream_gib=0.0004"
  bf16="model.precision=float relation.precision=bf16 relation.graph=none relation.discover=dense relation.chunk_mib=0.012"
  losses train "" "" 1 2 4
  losses graphs "" parallel.cuda_graphs=true 1 2
  losses self relation.self=true "" 2
  losses windows "$windows" "" 1 2
  losses cusparse "$windows" parallel.sparse_products=cusparse 1
  losses pairs "train.sampling=pairs train.pairs=500" "" 1 2
  losses groups train.lanes=2 parallel.time_groups=2 2 4
  losses clipped optimiser.clip=0.01 "" 1 2
  losses clipped_windows "$windows optimiser.clip=0.05" "" 1 2
  losses streamed "$dense" "$streamed relation.update=device" 1 2
  losses streamed_host "$dense" "$streamed relation.update=host" 1 2
  # Two bytes a value: rounding of floats decides last bits of them (4e-7 between two instruction sets of a CPU).
  within=1e-5 losses bf16 "$bf16" "" 1 2
  within=1e-5 losses bf16_streamed "$bf16" "relation.memory=streamed relation.stream_gib=0.0001 relation.update=device" 1

  run calibrate "$mpirun" -n 1 "$rossby" calibrate -o "$log/machine.json" --device cuda
  planned=()
  for name in slabs dense dcrnn; do
    sets=(model.precision=float train.epochs=20)
    if [[ $name == dense ]]; then sets+=(relation.graph=none relation.discover=dense model.latent=8); fi
    if [[ $name == dcrnn ]]; then sets=(model.name=dcrnn model.precision=float relation.mode=given relation.discover=none train.epochs=4 parallel.sparse_products=own); fi
    run "plan.$name" "$mpirun" -n 1 "$rossby" train "$work/run.toml" --run "$log/plan_$name" --device cuda \
      --machine "$log/machine.json" --resume never "${sets[@]/#/--set=}"
    planned+=("$log/plan_$name")
  done
  run plan.check "$rossby" plan --check "${planned[@]}"
  cat "$log/plan.check.txt"
  # The last column but one of the table, which the means end: the error of the planned memory, per cent.
  # shellcheck disable=SC2016
  run plan.memory awk 'NR > 1 { if (/ runs: mean error/) exit; if ($(NF - 1) ~ /^-?0\.0$/) count++; else wrong = 1 }
    END { exit wrong || count != 3 }' "$log/plan.check.txt"
fi

if ((${#failed[@]} > 0)); then
  say "failed: ${failed[*]}"
  exit 1
fi
say "all passed; logs in $log"
