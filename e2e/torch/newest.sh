#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes bin/torch-newest, a virtual environment with the newest PyTorch of PyPI,
# for the tests of python/kolo. PyPI's wheels for x86-64 are built for CUDA, and do
# not load without NVIDIA's libraries: 2.5 GB to download, 5.5 GB on the disk.
#
# Does nothing where there already is one: remove bin/torch-newest for a newer
# release. Ends with 75, and the reason, where it cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/bin/torch-newest
needed=12 # GB on the disk, while it is made

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
cannot() { printf 'the newest PyTorch is not there: %s\n' "$*" >&2; exit 75; }

works() { "$out/bin/python3" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null; }

describe() { "$out/bin/python3" -c 'import sys, torch; print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}")'; }

# The newest Python of the machine that PyTorch's wheels are made for.
python() {
  local candidate
  for candidate in python3.14 python3.13 python3.12 python3.11 python3.10 python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 10)' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

mkdir -p "${out%/*}"
exec 9>"${out%/*}/.torch-newest.lock"
flock 9

if works; then
  say "$(describe) is in bin/torch-newest"
  exit 0
fi
python=$(python) || cannot "there is no Python 3.10 or newer with the modules venv and ensurepip"
free=$(df --output=avail -BG "${out%/*}" | tr -dc '0-9\n' | tail -n 1)
[ "$free" -ge "$needed" ] || cannot "it takes $needed GB, and $free GB are free in ${out%/*}"
say "making bin/torch-newest with PyTorch from PyPI (2.5 GB, some minutes, once; log: bin/torch-newest.log)"
rm -rf "$out"
if ! { "$python" -m venv "$out" && timeout 15m "$out/bin/pip" install --no-cache-dir torch numpy; } >"$out.log" 2>&1; then
  tail -n 5 "$out.log" >&2
  rm -rf "$out"
  cannot "pip could not install it (all of that: bin/torch-newest.log)"
fi
works || cannot "it does not load: $("$out/bin/python3" -c 'import torch' 2>&1 | tail -n 1)"
say "$(describe) is in bin/torch-newest now"
