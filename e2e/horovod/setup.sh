#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes .venv, a Python in which `import horovod.torch` works, for the
# end-to-end tests, the demo and the benchmark. In this order:
#
#   1. a .venv that works already is kept;
#   2. a Horovod that python3 on the PATH can import is used;
#   3. else PyTorch comes from Debian's packages, and Horovod is compiled by
#      pip against it, with Gloo and without MPI. The wheel stays in bin/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/.venv
python=/usr/bin/python3
version=$(sed -n 's/^horovod==\([^ ]*\).*/\1/p' "$here/requirements.txt")

# PyTorch and its headers; pybind11, which Debian keeps apart from them; what
# Horovod imports; a compiler.
packages=(
  build-essential cmake python3-dev python3-pip python3-venv
  python3-torch libtorch-dev pybind11-dev
  python3-cloudpickle python3-psutil python3-yaml python3-packaging
  python3-cffi python3-setuptools python3-wheel
)

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
fail() { printf 'e2e/horovod/setup.sh: %s\n' "$*" >&2; exit 1; }

# Horovod must come with Gloo and PyTorch: that is what the driver speaks to.
works() {
  "$1" -c 'import horovod.torch as hvd, torch; assert hvd.gloo_built()' >/dev/null 2>&1
}

describe() {
  "$1" -c 'import horovod, sys, torch
print(f"Horovod {horovod.__version__}, PyTorch {torch.__version__}, Python {sys.version.split()[0]}")'
}

# link_horovodrun makes sure that upstream's launcher is in .venv too.
link_horovodrun() {
  [ -x "$venv/bin/horovodrun" ] && return
  printf '#!%s/bin/python\nfrom horovod.runner.launch import run_commandline\nrun_commandline()\n' "$venv" >"$venv/bin/horovodrun"
  chmod +x "$venv/bin/horovodrun"
}

use_existing() {
  local found
  found=$(command -v python3) && works "$found" || return 1
  say "using the Horovod that $found imports"
  "$found" -m venv --clear --system-site-packages "$venv"
  if ! works "$venv/bin/python"; then
    # python3 is itself in a virtual environment, whose packages a new one
    # does not see: name them.
    "$found" -c 'import site; print("\n".join(site.getsitepackages()))' \
      >"$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/kolo.pth"
  fi
  works "$venv/bin/python"
}

missing_packages() {
  for p in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"
  done
}

install_packages() {
  local missing sudo=()
  if ! command -v apt-get >/dev/null; then
    cat >&2 <<MSG
There is no Horovod that python3 can import, and no apt-get to build one with.
Please install, for the Python at /usr/bin/python3 or the first one on the PATH:
  - PyTorch >= 1.13, with its C++ headers
  - pybind11's headers, a C++ compiler, CMake and make
  - the modules cloudpickle, psutil, yaml, packaging, cffi, setuptools, wheel
  - then: e2e/horovod/build.sh python3 <directory>, and pip install the wheel it leaves there (with PyTorch >= 2.1
    Horovod $version compiles only with the changes that this script makes)
'make test-go' needs none of this.
MSG
    exit 1
  fi
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -eq 0 ]; then
    say "Debian's packages for PyTorch and its headers are installed"
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "not root, and no sudo: please install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing Debian packages, to compile Horovod against Debian's PyTorch: ${missing[*]}"
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# compile leaves a wheel in $1. CMake's own percentage is the progress shown;
# the rest of pip's many lines go to a log.
compile() {
  local dir=$1 log=$1/build.log end='\n' step=10
  [ -t 1 ] && end='\r' step=1
  say "compiling Horovod $version with PyTorch and Gloo, without MPI (about 3 minutes on 2 cores, once; log: ${log#"$root"/})"
  "$here/build.sh" "$venv/bin/python" "$dir" 2>&1 |
    tee "$log" |
    awk -v end="$end" -v step="$step" '
      match($0, /^ *\[ *[0-9]+%\]/) {
        p = substr($0, RSTART, RLENGTH); gsub(/[^0-9]/, "", p); p += 0
        if (p >= next_ || p < last) { printf "    compiling: %3d%%" end, p; fflush(); next_ = p - p % step + step }
        last = p
      }
      END { print "" }' ||
    { tail -n 30 "$log" >&2; fail "compiling failed; all of it: $log"; }
}

build() {
  [ -x "$python" ] || command -v apt-get >/dev/null || fail "no $python"
  install_packages
  "$python" -m venv --clear --system-site-packages "$venv"
  local dir wheel
  # A wheel fits the Python and the PyTorch it was compiled with.
  dir=$root/bin/horovod/$("$python" -c 'import sys, torch
print("torch-%s-%s" % (torch.__version__, sys.implementation.cache_tag))')
  mkdir -p "$dir"
  wheel=$(ls "$dir"/horovod-"$version"-*.whl 2>/dev/null | head -n 1 || true)
  if [ -n "$wheel" ]; then
    say "using the wheel ${wheel#"$root"/} of an earlier build"
  else
    compile "$dir"
    wheel=$(ls "$dir"/horovod-"$version"-*.whl)
  fi
  "$venv/bin/pip" install -q --no-deps --no-index "$wheel"
  works "$venv/bin/python" || fail "the Horovod just built cannot be imported: $("$venv/bin/python" -c 'import horovod.torch' 2>&1 | tail -n 1)"
}

mkdir -p "$root/bin"
exec 9>"$root/bin/.horovod.lock"
flock 9

if [ -x "$venv/bin/python" ] && works "$venv/bin/python"; then
  say "$(describe "$venv/bin/python") is in .venv"
else
  use_existing || build
  say "$(describe "$venv/bin/python") is in .venv now"
fi
link_horovodrun
