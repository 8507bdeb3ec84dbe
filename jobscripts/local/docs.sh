#!/usr/bin/env bash
# Builds the documentation site into build/docs and checks its links.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: jobscripts/local/docs.sh [--rossby PROGRAM] [--headers]

Installs what is missing (Debian packages mkdocs, mkdocs-material), writes the reference pages from the program, builds
the site with warnings as errors, and checks internal links and anchors. Open build/docs/index.html.

  --rossby PROGRAM  the program that writes the reference (default: build/release/apps/rossby, which is built first)
  --headers         also make pages of the public headers with Doxygen, in build/docs/headers

environment: as for jobscripts/local/test.sh
TEXT
}

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rossby='' headers=0
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --rossby)
      rossby=$(realpath "${2:?--rossby needs a program}")
      shift 2
      ;;
    --headers)
      headers=1
      shift
      ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
done

ensure_packages mkdocs mkdocs-material python3-pymdownx
if [[ -z $rossby ]]; then
  ensure_packages "${rossby_build_packages[@]}"
  build_preset release rossby
  rossby=$rossby_root/build/release/apps/rossby
fi
mpi_settings 1

cd "$rossby_root"
python3 -B tests/docs/check_links.py
rm -rf build/docs build/docs_pages
mkdir -p build
cp -r docs build/docs_pages
rm -f build/docs_pages/pictures/*.py build/docs_pages/Doxyfile
python3 -B docs/reference/make.py "$rossby" build/docs_pages
cat >build/mkdocs.yml <<'TEXT'
INHERIT: ../mkdocs.yml
docs_dir: docs_pages
site_dir: docs
TEXT
mkdocs build --quiet --strict --config-file build/mkdocs.yml
python3 -B tests/docs/check_links.py build/docs
if ((headers)); then
  ensure_packages doxygen
  doxygen docs/Doxyfile
  say "build/docs/headers/index.html"
fi
say "build/docs/index.html"
