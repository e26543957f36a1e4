#!/usr/bin/env bash
# Builds Horovod from PyPI's source for the TensorFlow of one Python environment, and installs it there.
#
#   bin/install_horovod.sh [--python PYTHON] [--rebuild]
#
# The finished wheel is kept in ${XDG_CACHE_HOME:-~/.cache}/deepspeech-training/horovod, in a folder named after
# TensorFlow, Python, machine and transports; with a wheel there, an installation takes seconds. Two runs at a time
# are safe: the second waits for the first.
#
# Transports: Gloo always; MPI where mpicxx is found; NCCL where TensorFlow is the CUDA build, and nvcc and nccl.h are
# found. HOROVOD_WITHOUT_MPI=1 leaves MPI out; CUDA_HOME and HOROVOD_NCCL_HOME say where CUDA and NCCL are;
# HOROVOD_BUILD_JOBS sets the number of compiler processes (default: one a core, as far as the memory goes).
set -euo pipefail

readonly HOROVOD_VERSION=0.28.1
readonly CHANGES=2  # version of what adapt_source does; with another one it is built anew
readonly BUILD_PACKAGES=(setuptools wheel)
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ROOT
readonly CONSTRAINTS=$ROOT/requirements/constraints.txt  # pins what builds
readonly REQUIREMENTS=$ROOT/requirements/horovod.txt     # what Horovod needs to run

PYTHON=python3
REBUILD=false

say() { printf 'install_horovod: %s\n' "$*" >&2; }
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

# Prints "<distribution> <version> <cp3XX> <machine> <site-packages>", or fails when there is no TensorFlow.
describe_environment() {
  "$PYTHON" - <<'PYTHON_END'
import importlib.metadata
import platform
import sys
import sysconfig

for name in ('tensorflow', 'tensorflow-cpu', 'tensorflow_cpu'):
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        continue
    python = f'cp{sys.version_info.major}{sys.version_info.minor}'
    print(name.replace('-', '_'), version, python, platform.machine(), sysconfig.get_path('platlib'))
    break
else:
    sys.exit(1)
PYTHON_END
}

horovod_works() {
  TF_CPP_MIN_LOG_LEVEL=3 "$PYTHON" -c 'import horovod.tensorflow as hvd; assert hvd.gloo_built()'
}

# The first directory of the arguments in which nccl.h lies, below include/ or not.
find_nccl() {
  local home
  for home in "$@"; do
    [ -n "$home" ] && [ -e "$home/include/nccl.h" ] && { printf '%s\n' "$home"; return 0; }
  done
  return 1
}

choose_transports() {
  TRANSPORTS=gloo
  if [ "${HOROVOD_WITHOUT_MPI:-}" != 1 ] && command -v mpicxx >/dev/null; then
    TRANSPORTS+=-mpi
  fi
  [ "$TF_NAME" = tensorflow ] || return 0  # a build without CUDA
  local nvcc
  CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
  nvcc=$CUDA_HOME/bin/nvcc
  if [ ! -x "$nvcc" ]; then
    nvcc=$(command -v nvcc || true)
    [ -n "$nvcc" ] && CUDA_HOME=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  fi
  if [ -z "$nvcc" ]; then
    say 'no nvcc: built without NCCL, so gradients of GPUs travel through the CPU. For NCCL, install the CUDA toolkit of' \
        "TensorFlow's version and NVIDIA's libnccl-dev, or set CUDA_HOME and HOROVOD_NCCL_HOME, and run this again."
  elif NCCL_HOME=$(find_nccl "${HOROVOD_NCCL_HOME:-}" /usr /usr/local "$CUDA_HOME" "$SITE/nvidia/nccl"); then
    TRANSPORTS+=-nccl
  else
    say "nvcc is there ($nvcc), but nccl.h is not: built without NCCL. Install NVIDIA's libnccl-dev or set HOROVOD_NCCL_HOME."
  fi
}

# Compiler, CMake and the two headers that TensorFlow's own headers include and its wheel does not have.
require_build_tools() {
  local packages=()
  add_compiler_packages
  header_is_missing highwayhash/sip_hash.h && packages+=(libhighwayhash-dev)
  header_is_missing farmhash.h && packages+=(libfarmhash-dev)
  install_packages "${packages[@]}"
}

build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 2000000) }' /proc/meminfo)  # a compiler needs up to 2 GB here
  [ "$memory" -ge 1 ] || memory=1
  echo $(( cores < memory ? cores : memory ))
}

# Horovod 0.28.1 was written for TensorFlow up to 2.13 and Python up to 3.11.
adapt_source() {
  local cmake=$1/horovod/tensorflow/CMakeLists.txt js_run=$1/horovod/runner/js_run.py
  local gloo=$1/horovod/common/gloo/gloo_context.cc
  # The XLA operations use an interface that newer TensorFlow has not; this project does not use them.
  sed -i '/horovod\/tensorflow\/xla_mpi_ops\.cc/d' "$cmake"
  ! grep -q xla_mpi_ops "$cmake" || die "xla_mpi_ops.cc could not be taken out of $cmake"
  # Python 3.12 has no distutils.
  sed -i 's/^from distutils\.spawn import find_executable$/from shutil import which as find_executable/' "$js_run"
  ! grep -q distutils "$js_run" || die "distutils could not be taken out of $js_run"
  # Gradients would go by the address of the host's name, not by the network that horovodrun found: Debian's hosts know
  # their own name as 127.0.1.1, so that several hosts would not find together.
  sed -i 's/^  assert(global_context\.IsEnabled());$/&\n  gloo_iface_ = global_context.gloo_iface_;/' "$gloo"
  grep -q 'gloo_iface_ = global_context' "$gloo" || die "the network interface could not be set in $gloo"
}

# Builds the wheel in $1 (a new directory) with $2 compiler processes and leaves it in $1/wheel.
build_wheel() {
  local work=$1 jobs=$2
  # Beside the environment, not in it: setuptools and wheel build, the rest is what Horovod's setup.py wants to import.
  "$PYTHON" -m pip install -q --target "$work/tools" -c "$CONSTRAINTS" -r "$REQUIREMENTS" "${BUILD_PACKAGES[@]}"
  export PYTHONPATH=$work/tools
  "$PYTHON" -m pip download -q --no-deps --no-binary horovod --no-build-isolation -d "$work" "horovod==$HOROVOD_VERSION"
  tar xzf "$work/horovod-$HOROVOD_VERSION.tar.gz" -C "$work"
  adapt_source "$work/horovod-$HOROVOD_VERSION"
  export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1
  export CMAKE_POLICY_VERSION_MINIMUM=3.5  # CMake 4 does not take Gloo's older one
  export TF_CPP_MIN_LOG_LEVEL=3 MAKEFLAGS=-j$jobs
  case $TRANSPORTS in
    *-mpi*) unset HOROVOD_WITHOUT_MPI; export HOROVOD_WITH_MPI=1 ;;
    *) export HOROVOD_WITHOUT_MPI=1 ;;
  esac
  case $TRANSPORTS in
    *-nccl*) configure_nccl "$work" ;;
    *) unset HOROVOD_GPU_OPERATIONS ;;
  esac
  "$PYTHON" -m pip wheel --no-deps --no-build-isolation --no-cache-dir -v -w "$work/wheel" \
    "$work/horovod-$HOROVOD_VERSION"
}

configure_nccl() {
  export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_CUDA_HOME=$CUDA_HOME HOROVOD_NCCL_HOME=$NCCL_HOME
  if [ "$NCCL_HOME" = "$SITE/nvidia/nccl" ]; then  # PyPI's package has no libnccl.so without a number
    mkdir -p "$1/nccl"
    ln -s "$NCCL_HOME"/lib/libnccl.so.? "$1/nccl/libnccl.so"
    export HOROVOD_NCCL_INCLUDE=$NCCL_HOME/include HOROVOD_NCCL_LIB=$1/nccl HOROVOD_NCCL_LINK=SHARED
  fi
}

# Leaves the wheel in $CACHE; ends with the log's last lines when the build fails.
fill_cache() {
  require_build_tools
  rm -rf "$CACHE"/build.*  # of a run that was ended; the lock says that none is at work
  local work log=$CACHE/build.log jobs=${HOROVOD_BUILD_JOBS:-$(build_jobs)}
  work=$(mktemp -d "$CACHE/build.XXXXXX")
  say "building Horovod $HOROVOD_VERSION for $KEY with $jobs compiler processes: about 7 minutes on 2 cores (log: $log)"
  build_wheel "$work" "$jobs" >"$log" 2>&1 &  # in the background, for `set -e` does not hold in a condition
  if ! wait $!; then
    tail -n 40 "$log" >&2
    rm -rf "$work"
    die "Horovod could not be built: the log's last lines are above, all of it is in $log"
  fi
  mv "$work"/wheel/horovod-*.whl "$CACHE/"
  rm -rf "$work"
}

main() {
  parse_arguments "$@"
  local environment
  environment=$(describe_environment) ||
    die "'$PYTHON' has no TensorFlow. Install it first: pip install -e '.[cpu]' (or '.[cuda]')."
  read -r TF_NAME TF_VERSION PY_TAG MACHINE SITE <<<"$environment"
  choose_transports
  KEY=$TF_NAME-$TF_VERSION-$PY_TAG-$MACHINE-$TRANSPORTS-$CHANGES
  CACHE=${XDG_CACHE_HOME:-~/.cache}/deepspeech-training/horovod/$KEY
  local marker=$SITE/horovod/built_for.txt wheels reason
  if ! $REBUILD && [ -e "$marker" ] && [ "$(cat "$marker")" = "$KEY" ]; then
    say "Horovod $HOROVOD_VERSION for $KEY is installed"
    return 0
  fi
  if ! $REBUILD && [ -d "$SITE/horovod" ] && [ ! -e "$marker" ] && horovod_works 2>/dev/null; then
    say "a Horovod that works with this TensorFlow is installed already, not by this script: left as it is (--rebuild replaces it)"
    return 0
  fi
  lock_folder "$CACHE"
  wheels=("$CACHE"/horovod-"$HOROVOD_VERSION"-*.whl)
  if $REBUILD || [ ! -e "${wheels[0]}" ]; then
    rm -f "$CACHE"/horovod-*.whl
    fill_cache
    wheels=("$CACHE"/horovod-"$HOROVOD_VERSION"-*.whl)
  fi
  "$PYTHON" -m pip install -q -c "$CONSTRAINTS" -r "$REQUIREMENTS"
  "$PYTHON" -m pip install -q --no-deps --force-reinstall "${wheels[0]}"
  if ! reason=$(horovod_works 2>&1); then
    say "$reason"
    die "the wheel ${wheels[0]} was installed but cannot be used: the reason is above. --rebuild builds it anew."
  fi
  printf '%s\n' "$KEY" >"$marker"
  say "installed Horovod $HOROVOD_VERSION for $KEY"
}

main "$@"
