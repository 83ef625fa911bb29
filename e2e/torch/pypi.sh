#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes a virtual environment with packages of PyPI, for tests:
#
#   newest        bin/torch-newest: the newest PyTorch
#   oldest        bin/torch-oldest: the oldest PyTorch that python/kolo works with
#   integrations  bin/integrations: the newest releases of what kolo.integrations is for, next
#                 to the PyTorch of bin/torch-newest
#   frameworks    bin/frameworks: the same, and other frameworks that train with PyTorch
#   worlds        bin/worlds: TensorFlow and JAX, without PyTorch
#
# PyPI's wheels of PyTorch for x86-64 are built for CUDA, and do not load without
# NVIDIA's libraries: 2.5 GB to download, 5.5 GB on the disk.
#
# Does nothing where there already is one: remove the directory for newer releases.
# Ends with 75, and the reason, where it cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$here/../.." && pwd)/bin
name=${1:?usage: pypi.sh newest|oldest|integrations|frameworks|worlds}

# The Pythons that there are wheels for, the best first; GB on the disk, while it is made.
case $name in
newest) out=$bin/torch-newest minors='14 13 12 11 10' needed=12 packages='torch numpy' ;;
oldest) out=$bin/torch-oldest minors='9 10 11' needed=10 packages='torch==2.1.0 numpy<2' ;; # wheels before 2.3 are for NumPy 1
integrations) out=$bin/integrations minors='' needed=3 packages='lightning transformers accelerate' ;;
frameworks) out=$bin/frameworks minors='' needed=4 packages='lightning transformers accelerate deepspeed torchtitan' ;;
worlds) out=$bin/worlds minors='13 12 11 10' needed=4 packages='tensorflow-cpu jax' ;;
*) echo "pypi.sh: no environment named $name: newest, oldest, integrations, frameworks or worlds" >&2; exit 2 ;;
esac

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
cannot() { printf '%s is not there: %s\n' "${out#"$bin"/}" "$*" >&2; exit 75; }

works() {
  if [ "$name" = worlds ]; then
    "$out/bin/python3" -c 'import tensorflow, jax' 2>/dev/null
    return
  fi
  "$out/bin/python3" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null || return
  [ -n "$minors" ] || "$out/bin/python3" -m pip -q show $packages >/dev/null 2>&1
}

describe() {
  if [ "$name" = worlds ]; then
    TF_CPP_MIN_LOG_LEVEL=3 "$out/bin/python3" -c 'import tensorflow, jax; print(f"TensorFlow {tensorflow.__version__}, JAX {jax.__version__}")' 2>/dev/null
    return
  fi
  "$out/bin/python3" -c 'import sys, torch; print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}")'
}

# A Python for the environment, on the PATH or pyenv's.
python() {
  local minor candidate
  if [ -z "$minors" ]; then
    echo "$bin/torch-newest/bin/python3"
    return
  fi
  for minor in $minors; do
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
      if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$candidate"
        return
      fi
    done
  done
  return 1
}

install() {
  "$python" -m venv "$out" || return
  if [ -z "$minors" ]; then # pip sees that PyTorch is there already
    "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$("$out/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch-newest.pth"
  fi
  timeout 15m "$out/bin/pip" install --no-cache-dir $packages
}

mkdir -p "$bin"
if [ -z "$minors" ]; then # next to bin/torch-newest
  "$here/pypi.sh" newest
fi
exec 9>"$bin/.${out##*/}.lock"
flock 9

if works; then
  say "$(describe) is in ${out#"${bin%/*}/"}"
  exit 0
fi
python=$(python) || cannot "none of the versions ${minors// /, } of Python 3 is there with the modules venv and ensurepip"
free=$(df --output=avail -BG "$bin" | tr -dc '0-9\n' | tail -n 1)
[ "$free" -ge "$needed" ] || cannot "it takes $needed GB, and $free GB are free in $bin"
say "making ${out#"${bin%/*}/"} with ${packages// /, } from PyPI (some minutes, once; log: $out.log)"
rm -rf "$out"
if ! install >"$out.log" 2>&1; then
  tail -n 5 "$out.log" >&2
  rm -rf "$out"
  cannot "pip could not install it (all of that: $out.log)"
fi
works || cannot "it does not load: $("$out/bin/python3" -c 'import torch' 2>&1 | tail -n 1)"
say "$(describe) is in ${out#"${bin%/*}/"} now"
