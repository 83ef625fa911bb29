#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes sure that there is a C compiler: the device plugin calls NVML through
# cgo. Does nothing where there is one.
set -euo pipefail
packages=(gcc libc6-dev)

works() {
  printf '#include <stdlib.h>\nint main(void) { return 0; }\n' |
    $(go env CC) -x c -o /dev/null - >/dev/null 2>&1
}

works && exit 0
if ! command -v apt-get >/dev/null; then
  echo "There is no C compiler that works ($(go env CC)), and no apt-get to install one with; the device plugin, which calls NVML, needs one. Please install gcc and the C library's headers." >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "device/compiler.sh: not root, and no sudo: please install ${packages[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
printf '\033[1m==> installing Debian packages, for the device plugin, which calls NVML through C: %s\033[0m\n' "${packages[*]}"
"${sudo[@]}" apt-get update -q
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
works || { echo "device/compiler.sh: $(go env CC) does not compile; 'go env CC' says which compiler Go uses" >&2; exit 1; }
