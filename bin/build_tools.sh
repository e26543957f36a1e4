# shellcheck shell=bash
# Shared by the scripts that build or install: what Debian's packages have to be there, and a folder to itself. To be
# sourced; the script defines `say`, and `die` for what ends it.

header_is_missing() { ! printf '#include <%s>\n' "$1" | "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1; }

# Puts what is missing to compile into the array `packages`: compiler, make and CMake.
add_compiler_packages() {
  command -v "${CXX:-g++}" >/dev/null || packages+=(g++)
  command -v make >/dev/null || packages+=(make)
  command -v cmake >/dev/null || packages+=(cmake)
}

# Installs the packages named, if any, with apt-get; where that cannot be, says what to do.
install_packages() {
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    die "missing, by Debian's names: $*. Install them with this system's package manager and run this again."
  [ "$(id -u)" = 0 ] ||
    die "missing: $*. Run 'sudo apt-get install $*', then this again."
  say "installing $* with apt-get"
  apt_install "$@" ||
    die "apt-get could not install $*: its words are above."
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -qq -y --no-install-recommends "$@" </dev/null >&2 ||
    { apt-get update -qq </dev/null >&2 && apt-get install -qq -y --no-install-recommends "$@" </dev/null >&2; }
}

# Makes the folder $1, and waits until no other run builds there; it is this script's until it ends.
lock_folder() {
  mkdir -p "$1"
  exec 9>"$1/lock"
  flock --nonblock 9 || { say 'waiting for another run that builds the same'; flock 9; }
}
