#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes bin/torch/venv, a Python in which `import horovod.torch` works with the
# PyTorch of bin/torch. Horovod is compiled in a copy of its root file system,
# into which the compiler goes; the wheel stays in bin/horovod. Does nothing
# where there already is one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
torch=$root/bin/torch
venv=$torch/venv
packages=(g++ make cmake python3-dev libtorch-dev pybind11-dev)

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
fail() { printf 'e2e/torch/horovod.sh: %s\n' "$*" >&2; exit 1; }

works() { "$venv/bin/python" -c 'import horovod.torch as hvd; assert hvd.gloo_built()' 2>/dev/null; }

describe() {
  "$venv/bin/python" -c 'import horovod, sys, torch
print(f"Horovod {horovod.__version__}, PyTorch {torch.__version__}, Python {sys.version.split()[0]}")'
}

# compile runs as root, and leaves a wheel in $1.
compile() {
  copy=$root/bin/horovod/root # for the trap, too
  rm -rf --one-file-system "$copy"
  trap 'rm -rf --one-file-system "$copy"' EXIT
  cp -a --reflink=auto "$torch/root/." "$copy"
  cp -L /etc/resolv.conf "$copy/etc/resolv.conf"
  cp -r "$root/e2e/horovod" "$copy/horovod"
  cp "$1"/horovod-*.tar.gz "$copy/horovod"
  # /proc, which importing PyTorch needs, is mounted for this command alone.
  unshare --mount env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy+"http_proxy=$http_proxy"} ${https_proxy+"https_proxy=$https_proxy"} \
    bash -euc 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"' "$copy" \
    bash -euc 'apt-get update -q; apt-get install -y -q --no-install-recommends "$@"; horovod/build.sh python3 /horovod' compile "${packages[@]}"
  cp "$copy"/horovod/horovod-*.whl "$1"
}

if [ "${1-}" = compile ]; then
  compile "$2"
  exit
fi

"$here/setup.sh"
exec 9>"$root/bin/.torch.lock"
flock 9

if works; then
  say "$(describe) is in bin/torch/venv"
  exit 0
fi

# A wheel fits the Python and the PyTorch it was compiled with.
dir=$root/bin/horovod/$("$torch/python3" -c 'import importlib.metadata as m, sys
print("torch-%s-%s" % (m.version("torch"), sys.implementation.cache_tag))')
mkdir -p "$dir"
if ! ls "$dir"/horovod-*.whl >/dev/null 2>&1; then
  sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "compiling in bin/torch's root file system needs root, for chroot: not root, and no sudo"
    sudo=(sudo --preserve-env=http_proxy,https_proxy)
  fi
  log=$dir/build.log
  say "compiling Horovod in a copy of bin/torch's root file system, with ${packages[*]} in it (about 6 minutes on 2 cores, once; log: ${log#"$root"/})"
  "$root/e2e/horovod/build.sh" "$torch/python3" "$dir" fetch >"$log" 2>&1 &&
    "${sudo[@]}" "$0" compile "$dir" >>"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "compiling failed; all of it: $log"; }
fi
"$torch/python3" -m venv --clear --system-site-packages --without-pip "$venv"
"$venv/bin/python" -m pip install -q --no-deps --no-index "$dir"/horovod-*.whl
works || fail "the Horovod just built cannot be imported: $("$venv/bin/python" -c 'import horovod.torch' 2>&1 | tail -n 1)"
say "$(describe) is in bin/torch/venv now"
