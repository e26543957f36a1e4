#!/usr/bin/env bash
# Builds the programs of KenLM that make language models (lmplz, filter, build_binary) from KenLM's source on PyPI.
#
#   bin/install_kenlm.sh [--module] [--python PYTHON] [--rebuild]
#
# The programs are kept in ${XDG_CACHE_HOME:-~/.cache}/deepspeech-training/kenlm, where bin/generate_lm.py finds them; the
# last line of the output is their folder. PYTHON (default: python3) is for its pip.
#
# With --module it installs KenLM's Python package into PYTHON instead, for --scorer_path. Up to Python 3.12 pip does that
# by itself; for newer ones the wrapper in PyPI's release, which does not fit them, is generated anew, and the wheel is
# kept in .../deepspeech-training/kenlm-module.
#
# What is there is not built again. Two runs at a time are safe: the second waits for the first. Needs a C++ compiler,
# CMake and, for the programs, Boost, which apt-get installs where they are missing. KENLM_BUILD_JOBS sets the number of
# compiler processes.
set -euo pipefail

readonly CHANGES=1  # version of how it is built; with another one it is built anew
readonly PROGRAMS=(lmplz filter build_binary)
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ROOT
readonly REQUIREMENTS=$ROOT/requirements/scorer.txt
readonly CONSTRAINTS=$ROOT/requirements/constraints.txt  # pins what builds

PYTHON=python3
MODULE=false
REBUILD=false

say() { printf 'install_kenlm: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 2; }

# shellcheck source=bin/build_tools.sh
source "$ROOT/bin/build_tools.sh"

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --python) [ $# -gt 1 ] || die '--python needs the path of a Python'; PYTHON=$2; shift 2 ;;
      --module) MODULE=true; shift ;;
      --rebuild) REBUILD=true; shift ;;
      -h|--help) usage; exit 0 ;;
      *) usage >&2; die "unknown argument '$1'" ;;
    esac
  done
  command -v "$PYTHON" >/dev/null || die "no Python at '$PYTHON'"
}

require_build_tools() {
  local packages=()
  add_compiler_packages
  if ! $MODULE; then
    header_is_missing boost/program_options.hpp && packages+=(libboost-program-options-dev)
    header_is_missing boost/thread.hpp && packages+=(libboost-thread-dev)
  fi
  install_packages "${packages[@]}"
}

# Leaves the source in $1/kenlm-$VERSION.
fetch_source() {
  "$PYTHON" -m pip download -q --no-deps --no-binary kenlm -d "$1" "kenlm==$VERSION"
  tar xzf "$1/kenlm-$VERSION.tar.gz" -C "$1"
}

# Builds in $1 (a new directory) with $2 compiler processes and leaves the programs in $1/bin.
build_programs() {
  local work=$1 jobs=$2 source=$1/kenlm-$VERSION static
  fetch_source "$work"
  # The programs need neither its tests nor Boost.System, which newer versions of Boost do not have as a library.
  sed -i '/^find_package(Boost/,/^)/{/unit_test_framework/d;/^ *system$/d}' "$source/CMakeLists.txt"
  # Linked with Boost's static libraries where they are, so that the programs go on running when Boost is not there.
  for static in ON OFF; do
    rm -rf "$work/build"
    if cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DBoost_USE_STATIC_LIBS=$static; then
      break
    fi
  done
  cmake --build "$work/build" --parallel "$jobs" --target "${PROGRAMS[@]}"
  mkdir "$work/bin"
  mv "${PROGRAMS[@]/#/$work/build/bin/}" "$work/bin/"
}

# Builds in $1 (a new directory) and leaves a wheel for PYTHON in $1/bin.
build_module() {
  local work=$1 source=$1/kenlm-$VERSION
  fetch_source "$work"
  "$PYTHON" -m pip install -q -c "$CONSTRAINTS" --target "$work/cython" cython
  PYTHONPATH=$work/cython "$PYTHON" -m cython --cplus -3 "$source/python/kenlm.pyx" -o "$source/python/kenlm.cpp"
  PIP_CONSTRAINT=$CONSTRAINTS "$PYTHON" -m pip wheel -q --no-deps -w "$work/bin" "$source"
}

# Leaves in $FOLDER/bin what the function $1 builds; ends with the log's last lines when the build fails.
fill_cache() {
  require_build_tools
  rm -rf "$FOLDER"/build.*  # of a run that was ended; the lock says that none is at work
  local work log=$FOLDER/build.log jobs=${KENLM_BUILD_JOBS:-$(nproc)}
  work=$(mktemp -d "$FOLDER/build.XXXXXX")
  say "building KenLM $VERSION with $jobs compiler processes: some minutes (log: $log)"
  "$1" "$work" "$jobs" >"$log" 2>&1 &  # in the background, for `set -e` does not hold in a condition
  if ! wait $!; then
    tail -n 40 "$log" >&2
    rm -rf "$work"
    die "KenLM could not be built: the log's last lines are above, all of it is in $log"
  fi
  rm -rf "${FOLDER:?}/bin"
  mv "$work/bin" "$FOLDER/bin"
  rm -rf "$work"
}

# Has $FOLDER to itself, and fills it by the function $1 where it is not filled.
provide() {
  lock_folder "$FOLDER"
  if $REBUILD || [ ! -e "$FOLDER/bin" ]; then
    fill_cache "$1"
  fi
}

install_module() {
  if "$PYTHON" -c 'import kenlm' 2>/dev/null && ! $REBUILD; then
    return 0
  fi
  local minor
  minor=$("$PYTHON" -c 'import sys; print(sys.version_info.minor)')
  if [ "$minor" -lt 13 ]; then
    "$PYTHON" -m pip install -q --disable-pip-version-check "kenlm==$VERSION"
  else
    FOLDER=$CACHE/kenlm-module/$VERSION-$(uname -m)-$CHANGES-cp3$minor
    provide build_module
    "$PYTHON" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall "$FOLDER"/bin/kenlm-*.whl
  fi
  "$PYTHON" -c 'import kenlm' || die "the package was installed into $PYTHON and cannot be imported: its words are above"
}

main() {
  parse_arguments "$@"
  VERSION=$(sed -n 's/^kenlm==\([^ ;]*\).*/\1/p' "$REQUIREMENTS")
  [ -n "$VERSION" ] || die "$REQUIREMENTS does not say which version of kenlm"
  CACHE=${XDG_CACHE_HOME:-~/.cache}/deepspeech-training
  if $MODULE; then
    install_module
    return 0
  fi
  FOLDER=$CACHE/kenlm/$VERSION-$(uname -m)-$CHANGES
  provide build_programs
  "$FOLDER/bin/lmplz" --help >/dev/null 2>&1 || [ $? = 1 ] || die "$FOLDER/bin/lmplz does not run; --rebuild builds it anew"
  say 'lmplz, filter and build_binary are in'
  printf '%s\n' "$FOLDER/bin"
}

main "$@"
