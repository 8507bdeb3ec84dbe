#!/usr/bin/env bash
# Makes the Debian packages, checks them, and tries them on a bare Debian.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/local/package.sh [--build DIR] [--bare]

Builds rossby_VERSION_ARCH.deb (program, configurations, scripts, man pages) and librossby-dev_VERSION_ARCH.deb
(libraries, headers). Checks the contents of these packages, with lintian if lintian is installed.

  --build DIR   a build folder that is configured, instead of build/package
  --bare        also installs the program in a bare Debian 12 without a compiler (needs root and mmdebstrap), runs the
                demonstration there, and prints the time of both steps. Packages are downloaded before the clock starts

environment: as for jobscripts/local/test.sh
TEXT
}

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build='' bare=0
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --build)
      build=$(realpath "${2:?--build needs a folder}")
      shift
      ;;
    --bare) bare=1 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
  shift
done
if ((bare && EUID != 0)); then die "--bare makes a root folder. Run this script as root"; fi

ensure_packages "${rossby_build_packages[@]}" dpkg-dev python3
if [[ -z $build ]]; then
  build=$rossby_root/build/package
  build_preset package
elif [[ ! -f $build/CPackConfig.cmake ]]; then
  die "--build $build: not a build folder of the preset \"package\". Leave --build out to make one"
fi
say "packing"
quietly "$build/logs/cpack.log" cmake -E chdir "$build" cpack
packages=$build/packages
rm -rf "$packages/_CPack_Packages"
version=$(sed -nE 's/^set\(CPACK_PACKAGE_VERSION "(.*)"\)$/\1/p' "$build/CPackConfig.cmake")
deb=("$packages/rossby_$version"-*.deb)
python3 -B "$rossby_root/tests/packaging/check_package.py" "$build" "${deb[0]}"
if command -v lintian >/dev/null; then
  say "lintian"
  lintian --allow-root --fail-on error "$packages"/*"_$version"-*.deb
fi
printf '%s\n' "$packages"/*"_$version"-*.deb
if ((!bare)); then exit 0; fi

ensure_packages mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say "making a bare Debian 12"
quietly "$build/logs/bare.log" mmdebstrap --variant=minbase bookworm "$work/root"
cp "${deb[0]}" "$work/root/srv/rossby.deb"
cat >"$work/root/srv/try.sh" <<'TEXT'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
apt-get update -qq
apt-get install -y -qq --no-install-recommends --download-only /srv/rossby.deb >/tmp/download.log 2>&1
start=$(date +%s.%N)
apt-get install -y --no-install-recommends /srv/rossby.deb >/tmp/install.log 2>&1 || { cat /tmp/install.log; exit 1; }
installed=$(date +%s.%N)
for compiler in cc c++ gcc g++ clang nvcc make cmake; do
  if command -v $compiler; then echo "error: there is a compiler" >&2; exit 1; fi
done
/usr/share/rossby/jobscripts/demo.sh --out /tmp/demo >/tmp/demo.log 2>&1 || { cat /tmp/demo.log; exit 1; }
end=$(date +%s.%N)
grep -A 7 '^RMSE' /tmp/demo.log
sed -nE 's/^.* ([0-9]+) newly installed.*/== \1 packages/p' /tmp/install.log
awk -v a="$start" -v b="$installed" -v c="$end" \
  'BEGIN { printf "== installed in %.0f s, demonstration in %.0f s, together %.0f s\n", b - a, c - b, c - a }'
TEXT
# The namespace ends all its processes and mounts.
# shellcheck disable=SC2016  # expanded inside
time unshare --mount --pid --fork --kill-child bash -c '
  mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" && mount --rbind /dev "$0/dev"
  cp /etc/resolv.conf "$0/etc/resolv.conf"
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$0" bash /srv/try.sh' "$work/root"
say "load of this machine: $(cut -d ' ' -f 1-3 /proc/loadavg)"
