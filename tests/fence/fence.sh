#!/usr/bin/env bash
# The fence: which folder may include what. Reads sources, builds nothing.
#
#   fence.sh [ROOT]     checks the tree below ROOT (default: the tree this script lies in)
#
# Prints one line "file:line: what is wrong" per violation. Exit code 0: clean, 1: violations, 2: cannot check.
set -euo pipefail

# The rooms of lib/, left to right: a room includes only itself and rooms to its left.
readonly rooms=(base tensor io relation exchange kernels autograd data model train plan)
# Folders that must be there and hold sources, or nothing would be checked in them.
# They stand on one line: test_fence.sh reads it.
readonly filled=(lib/rossby/base lib/rossby/tensor lib/rossby/io lib/rossby/relation lib/rossby/exchange lib/rossby/kernels lib/rossby/autograd lib/rossby/data lib/rossby/model lib/rossby/train lib/rossby/plan mpi/rossby/mpi run/rossby/run apps benchmarks tests/lib tests/mpi tests/run tests/apps)
readonly long_file=450

root=${1:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
violations=0

violation() {
  printf '%s\n' "$*"
  violations=$((violations + 1))
}

sources() {
  find "$@" -type f \( -name '*.hpp' -o -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cc' -o -name '*.cxx' \
    -o -name '*.c' -o -name '*.cu' -o -name '*.inl' \) | LC_ALL=C sort
}

# Position of a room in the order.
declare -A rank_of
for i in "${!rooms[@]}"; do rank_of[${rooms[$i]}]=$i; done

# check_foreign FILE WHERE HEADER: rule 1, libraries that only some folders may know.
check_foreign() {
  local file=$1 where=$2 header=$3
  case $header in
    mpi.h | mpi_proto.h | mpi-ext.h | petsc*.h | petsc/* | *scotch.h | hdf5.h | hdf5_hl.h | H5*.h | netcdf_par.h | nccl*.h)
      case $file in
        mpi/* | tests/mpi/*) ;;
        *) violation "$where: <$header> belongs in mpi/ and tests/mpi/ only" ;;
      esac
      ;;
    cuda.h | cuda/* | cuda_*.h | cuda_*.hpp | cublas*.h | cusparse*.h | curand*.h | cusolver*.h | cufft*.h | cub/* | \
      thrust/* | cooperative_groups* | nvrtc.h | nvml.h | mma.h)
      case $file in
        lib/rossby/kernels/cuda/* | lib/rossby/tensor/*cuda* | mpi/rossby/mpi/*nccl*) ;;
        *) violation "$where: <$header> belongs in lib/rossby/kernels/cuda, lib/rossby/tensor/*cuda* and mpi/rossby/mpi/*nccl* only" ;;
      esac
      ;;
  esac
}

# check_room FILE WHERE ROOM: the order of the rooms; ROOM is the X of "rossby/X/…".
check_room() {
  local file=$1 where=$2 wanted=$3 own own_rank wanted_rank
  wanted_rank=${rank_of[$wanted]:-}
  if [[ -z $wanted_rank && $wanted != mpi && $wanted != run ]]; then
    violation "$where: there is no room $wanted"
    return
  fi
  case $file in
    lib/*)
      own=${file#lib/rossby/}
      own=${own%%/*}
      own_rank=${rank_of[$own]:-}
      if [[ -z $own_rank ]]; then
        return # reported once for the folder
      elif [[ $wanted == mpi || $wanted == run ]]; then
        violation "$where: lib/ includes nothing of $wanted/"
      elif ((wanted_rank > own_rank)); then
        violation "$where: room $own may not include room $wanted, which is to its right"
      fi
      ;;
    mpi/*)
      if [[ $wanted == run ]]; then violation "$where: mpi/ includes nothing of run/"; fi
      ;;
    tests/lib/*)
      if [[ $wanted == mpi || $wanted == run ]]; then violation "$where: tests/lib/ includes nothing of $wanted/"; fi
      ;;
  esac
}

# check_path FILE WHERE HEADER: includes that go around the rooms.
check_path() {
  local file=$1 where=$2 header=$3
  case $header in
    ../*) violation "$where: \"$header\": include by room (rossby/<room>/x.hpp), not by relative path" ;;
    lib/* | mpi/* | run/*) violation "$where: \"$header\": include by room (rossby/<room>/x.hpp), not by folder" ;;
    apps/*)
      case $file in
        apps/* | tests/apps/*) ;;
        *) violation "$where: \"$header\": only apps/ and tests/apps/ know apps/" ;;
      esac
      ;;
    tests/*)
      case $file in
        tests/*) ;;
        *) violation "$where: \"$header\": only tests/ know tests/" ;;
      esac
      ;;
  esac
}

# check_resolves WHERE HEADER: an include of ours names a file of the tree, so that it is found without a build.
check_resolves() {
  local where=$1 header=$2 base
  case $header in
    rossby/*)
      for base in lib mpi run; do
        if [[ -f $base/$header ]]; then return; fi
      done
      ;;
    *)
      if [[ -f $header ]]; then return; fi
      ;;
  esac
  violation "$where: \"$header\": no such file in the tree"
}

check_include() {
  local file=$1 where=$1:$2 text=$3 header
  if [[ $text =~ ^[[:space:]]*#[[:space:]]*include(_next)?[[:space:]]*[\<\"]([^\>\"]+)[\>\"] ]]; then
    header=${BASH_REMATCH[2]}
    check_foreign "$file" "$where" "$header"
    check_path "$file" "$where" "$header"
    if [[ $text == *\"* || $header == rossby/* ]]; then check_resolves "$where" "$header"; fi
    if [[ $header == rossby/*/* ]]; then
      header=${header#rossby/}
      check_room "$file" "$where" "${header%%/*}"
    fi
  else
    violation "$where: an include whose name the fence cannot read"
  fi
}

# check_names FILE WHERE: names of MPI, which run/ and apps/ have no use for, in comments neither.
check_names() {
  case $1 in
    run/* | apps/*) violation "$2: a name of MPI: run/ and apps/ call it through mpi/ (Communicator, Reducer)" ;;
  esac
}

cd "$root" || exit 2
for folder in "${filled[@]}"; do
  if [[ ! -d $folder ]]; then
    violation "$folder: the folder is missing, nothing in it was checked"
  elif [[ -z $(sources "$folder") ]]; then
    violation "$folder: no source in it, nothing was checked"
  fi
done
for folder in lib/rossby/*/ mpi/rossby/*/ run/rossby/*/ apps/ benchmarks/ tests/mpi/ tests/run/ tests/apps/; do
  folder=${folder%/}
  if [[ ! -d $folder || -z $(sources "$folder") ]]; then continue; fi
  if [[ $folder == lib/* && -z ${rank_of[${folder##*/}]:-} ]]; then
    violation "$folder: not a room of lib/: give it a place in the order of the rooms (fence.sh, rooms)"
  elif [[ " ${filled[*]} " != *" $folder "* ]]; then
    violation "$folder: holds sources now: add it to the folders that must (fence.sh, filled)"
  fi
done
tops=()
for top in lib mpi run apps benchmarks tests; do
  if [[ -d $top ]]; then tops+=("$top"); fi
done
readarray -t files < <(sources "${tops[@]}")
if ((${#files[@]} > 0)); then
  while IFS=: read -r file line text; do
    check_include "$file" "$line" "$text"
  done < <(grep -HnE '^[[:space:]]*#[[:space:]]*include' "${files[@]}" || true)
  while IFS=: read -r file line text; do
    check_names "$file" "$file:$line"
  done < <(grep -HnE '\bP?MPI_[A-Za-z]' "${files[@]}" || true)
  wc -l "${files[@]}" | awk -v most="$long_file" \
    '$2 != "total" && $1 > most { print $2 ": note: " $1 " lines, the aim is 400" }'
fi

if ((violations > 0)); then
  printf 'fence: %d violations in %d files\n' "$violations" "${#files[@]}"
  exit 1
fi
printf 'fence: %d files keep to their rooms\n' "${#files[@]}"
