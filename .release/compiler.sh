#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes sure that there is a C compiler for the other architecture of a release: the
# driver and the device plugin use cgo. Does nothing where there is one.
set -euo pipefail
case $(go env GOHOSTARCH) in
  amd64) compiler=aarch64-linux-gnu-gcc packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
  arm64) compiler=x86_64-linux-gnu-gcc packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
  *) echo "release: build on linux/amd64 or linux/arm64" >&2; exit 1 ;;
esac

works() {
  printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "$compiler" -x c -o /dev/null - >/dev/null 2>&1
}

works && exit 0
if ! command -v apt-get >/dev/null; then
  echo "release: there is no $compiler that works, and no apt-get to install one with. Please install a C compiler and C library for the other architecture under that name." >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "release: not root, and no sudo: please install ${packages[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
printf '\033[1m==> installing Debian packages, to compile for the other architecture: %s\033[0m\n' "${packages[*]}"
"${sudo[@]}" apt-get update -q
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
works || { echo "release: $compiler does not compile" >&2; exit 1; }
