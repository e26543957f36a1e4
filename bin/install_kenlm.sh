#!/usr/bin/env bash
# Builds the programs of KenLM that make language models (lmplz, filter, build_binary) from KenLM's source on PyPI.
#
#   bin/install_kenlm.sh [--python PYTHON] [--rebuild]
#
# They are kept in ${XDG_CACHE_HOME:-~/.cache}/deepspeech-training/kenlm, where bin/generate_lm.py finds them; the last
# line of the output is their folder. With programs there, nothing is done. Two runs at a time are safe: the second
# waits for the first. Needs a C++ compiler, CMake and Boost, which apt-get installs where they are missing; PYTHON
# (default: python3) is for its pip. KENLM_BUILD_JOBS sets the number of compiler processes.
set -euo pipefail

readonly CHANGES=1  # version of how it is built; with another one it is built anew
readonly PROGRAMS=(lmplz filter build_binary)
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ROOT
readonly REQUIREMENTS=$ROOT/requirements/scorer.txt

PYTHON=python3
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
  header_is_missing boost/program_options.hpp && packages+=(libboost-program-options-dev)
  header_is_missing boost/thread.hpp && packages+=(libboost-thread-dev)
  install_packages "${packages[@]}"
}

# Builds in $1 (a new directory) with $2 compiler processes and leaves the programs in $1/bin.
build_programs() {
  local work=$1 jobs=$2 source=$1/kenlm-$VERSION static
  "$PYTHON" -m pip download -q --no-deps --no-binary kenlm -d "$work" "kenlm==$VERSION"
  tar xzf "$work/kenlm-$VERSION.tar.gz" -C "$work"
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

# Leaves the programs in $FOLDER/bin; ends with the log's last lines when the build fails.
fill_cache() {
  require_build_tools
  rm -rf "$FOLDER"/build.*  # of a run that was ended; the lock says that none is at work
  local work log=$FOLDER/build.log jobs=${KENLM_BUILD_JOBS:-$(nproc)}
  work=$(mktemp -d "$FOLDER/build.XXXXXX")
  say "building KenLM $VERSION with $jobs compiler processes: some minutes (log: $log)"
  build_programs "$work" "$jobs" >"$log" 2>&1 &  # in the background, for `set -e` does not hold in a condition
  if ! wait $!; then
    tail -n 40 "$log" >&2
    rm -rf "$work"
    die "KenLM could not be built: the log's last lines are above, all of it is in $log"
  fi
  rm -rf "$FOLDER/bin"
  mv "$work/bin" "$FOLDER/bin"
  rm -rf "$work"
}

main() {
  parse_arguments "$@"
  VERSION=$(sed -n 's/^kenlm==//p' "$REQUIREMENTS")
  [ -n "$VERSION" ] || die "$REQUIREMENTS does not say which version of kenlm"
  FOLDER=${XDG_CACHE_HOME:-~/.cache}/deepspeech-training/kenlm/$VERSION-$(uname -m)-$CHANGES
  mkdir -p "$FOLDER"
  exec 9>"$FOLDER/lock"
  flock --nonblock 9 || { say 'waiting for another run that builds the same'; flock 9; }
  if $REBUILD || [ ! -e "$FOLDER/bin" ]; then
    fill_cache
  fi
  "$FOLDER/bin/lmplz" --help >/dev/null 2>&1 || [ $? = 1 ] || die "$FOLDER/bin/lmplz does not run; --rebuild builds it anew"
  say 'lmplz, filter and build_binary are in'
  printf '%s\n' "$FOLDER/bin"
}

main "$@"
