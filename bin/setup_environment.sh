#!/usr/bin/env bash
# Makes .venv and installs the trainer there; does nothing when all of it is there already.
#
#   bin/setup_environment.sh demo|dev
#
# demo: what `make demo` needs. dev: what the tests and checks need in addition.
# PYTHON=/path/to/python3.12 says which Python to use (default: the newest of 3.10 to 3.13 that is found),
# VENV=folder where the environment goes (default: .venv), TENSORFLOW=cpu|cuda which TensorFlow is installed (default:
# cuda where nvidia-smi answers).
set -euo pipefail

readonly NEWEST=13 OLDEST=10  # of Python 3
VENV=${VENV:-.venv}

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 2; }

# The number after "3." of a Python that can be run and is one TensorFlow has wheels for; fails otherwise.
minor_version() {
  "$1" -c '
import struct, sys
if sys.implementation.name != "cpython" or sys.version_info[0] != 3 or struct.calcsize("P") != 8: sys.exit(1)
print(sys.version_info[1])' 2>/dev/null
}

can_make_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# Sets PYTHON, or ends with what to do.
choose_python() {
  local candidate minor suitable='' other=''
  if [ -n "${PYTHON:-}" ]; then
    minor=$(minor_version "$PYTHON") || die "PYTHON=$PYTHON is no 64-bit Python 3"
    if [ "$minor" -lt $OLDEST ] || [ "$minor" -gt $NEWEST ]; then
      die "PYTHON=$PYTHON is Python 3.$minor; TensorFlow 2.21 needs 3.$OLDEST to 3.$NEWEST"
    fi
    can_make_environments "$PYTHON" || die "$(missing_venv "$PYTHON" "$minor")"
    return 0
  fi
  for candidate in $(seq -f 'python3.%g' $NEWEST -1 $OLDEST) python3 python; do
    minor=$(minor_version "$candidate") || continue
    if [ "$minor" -lt $OLDEST ] || [ "$minor" -gt $NEWEST ]; then
      other="$other 3.$minor"
    elif can_make_environments "$candidate"; then
      PYTHON=$candidate
      return 0
    else
      suitable=${suitable:-$(missing_venv "$candidate" "$minor")}
    fi
  done
  [ -z "$suitable" ] || die "$suitable"
  [ -n "$other" ] || die "no Python found; TensorFlow 2.21 needs Python 3.$OLDEST to 3.$NEWEST (sudo apt-get install python3 python3-venv)"
  die "TensorFlow 2.21 needs Python 3.$OLDEST to 3.$NEWEST, but only$other was found. Install another one, and name it if it is not on the PATH: make PYTHON=/path/to/python3.12 ..."
}

missing_venv() {
  echo "Python 3.$2 ($(command -v "$1")) cannot make virtual environments: sudo apt-get install python3-venv (or python3.$2-venv), then run this again"
}

choose_tensorflow() {
  if [ -z "${TENSORFLOW:-}" ]; then
    TENSORFLOW=cpu
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
      TENSORFLOW=cuda
    fi
  fi
  case $TENSORFLOW in cpu|cuda) ;; *) die "TENSORFLOW=$TENSORFLOW is neither cpu nor cuda" ;; esac
}

# What an installation depends on, as one line.
fingerprint() {
  printf '%s %s %s\n' "$1" "$TENSORFLOW" "$(cat setup.py requirements/*.txt bin/install_kenlm.sh | sha256sum | cut -d ' ' -f 1)"
}

main() {
  [ $# -eq 1 ] || die 'usage: bin/setup_environment.sh demo|dev'
  local extra=$1 stamp=$VENV/installed.txt python=$VENV/bin/python
  case $extra in demo|dev) ;; *) die "'$extra' is neither demo nor dev" ;; esac
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  choose_tensorflow
  # dev has all that demo has.
  if [ -x "$python" ] && grep -qxF -e "$(fingerprint dev)" -e "$(fingerprint "$extra")" "$stamp" 2>/dev/null; then
    return 0
  fi
  if ! "$python" -c 'import pip' 2>/dev/null; then
    [ ! -e "$VENV" ] || [ -e "$VENV/pyvenv.cfg" ] || die "$VENV is there but is no virtual environment; move it away, or name another: make VENV=folder"
    choose_python
    say "Making $VENV with $("$PYTHON" --version)"
    "$PYTHON" -m venv --clear "$VENV"
  fi
  rm -f "$stamp"
  if [ "$extra" = dev ] && ! command -v c++ >/dev/null && ! command -v g++ >/dev/null; then
    source bin/build_tools.sh
    install_packages g++  # KenLM is built from its source
  fi
  if [ "$extra" = dev ] && ! command -v sox >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    source bin/build_tools.sh
    say 'installing sox with apt-get'
    apt_install sox || say 'without sox, tests that compare audio formats with it are skipped'
  fi
  say "Installing TensorFlow for $TENSORFLOW and the trainer ($extra) into $VENV: a minute or some, most of it for the download"
  if [ "$TENSORFLOW" = cuda ]; then  # the two packages have the same files
    "$python" -m pip uninstall -q -y tensorflow-cpu 2>/dev/null || true
  fi
  "$python" -m pip install -q --disable-pip-version-check -c requirements/constraints.txt -e ".[$TENSORFLOW,$extra]" </dev/null
  [ "$extra" != dev ] || bin/install_kenlm.sh --module --python "$python"
  fingerprint "$extra" >"$stamp"
}

main "$@"
