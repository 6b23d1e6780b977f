# Sourced by the scripts beside it: where things are, and how they talk to people.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
venv=$top/.venv

say() { printf '%s\n' "== $*"; }
die() {
  printf '%s\n' "${0##*/}: $*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# The comment at the head of a script is its help.
print_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# logged <file> <command...>: the command's output goes to a file; where it fails, the end of it is shown.
logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || {
    local rc=$?
    tail -n 40 "$log" >&2
    printf '%s\n' "failed ($rc): $*" "the whole output: $log" >&2
    return "$rc"
  }
}

# Compiler processes at a time: one a core, but each may need 1.5 GB (the vector kernels do).
jobs() {
  local cores kilobytes by_memory
  cores=$(nproc)
  kilobytes=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
  by_memory=$((kilobytes / 1500000))
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# configure <folder> <preset> [cmake arguments...]
configure() {
  local folder=$1 preset=$2
  shift 2
  if have ccache; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  logged "$folder/configure.log" cmake --preset "$preset" -B "$folder" "$@" || exit 1
  sed -n '/^-- Ferrule /,$ { /^-- Ferrule \|^--   /s/^-- //p }' "$folder/configure.log"
}

# build <folder> [targets...]: ninja's own progress line on a terminal, else one line in 25, and whatever is no
# progress.
build() {
  local folder=$1 started=$SECONDS
  shift
  local command=(cmake --build "$folder" -j "$(jobs)")
  (($# == 0)) || command+=(--target "$@")
  say "building $folder ($(jobs) at a time)"
  if [[ -t 1 ]]; then
    "${command[@]}"
  else
    "${command[@]}" 2>&1 | awk '!/^\[[0-9]+\/[0-9]+\]/ || ++lines % 25 == 0 { print; fflush() }'
  fi || die "the build in $folder failed"
  say "built $folder in $((SECONDS - started)) s"
}
