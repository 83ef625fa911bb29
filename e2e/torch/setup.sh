#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes bin/torch, a Python with PyTorch 2.6 (CPU, Gloo) for the end-to-end
# tests of today's PyTorch, whatever PyTorch the machine has:
#
#   bin/torch/root      the root file system of a Debian 13, from its packages
#   bin/torch/python3   starts that root's Python, without root and without
#                       chroot: by the root's own loader and libraries
#
# Does nothing where there already is one. Needs Debian or Ubuntu, and root for
# debootstrap; the tests that use bin/torch skip, with a message, where it is
# missing. MIRROR names another Debian mirror than that of the machine's apt.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/bin/torch
suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# PyTorch; what tests of a Python package use; what Horovod imports.
packages=(
  python3-torch python3-numpy
  python3-pip python3-setuptools python3-wheel python3-pytest
  python3-cloudpickle python3-psutil python3-yaml python3-packaging python3-cffi
)

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
fail() { printf 'e2e/torch/setup.sh: %s\n' "$*" >&2; exit 1; }

# The contents of $out/stamp, which is written last: another list of packages
# is another root.
stamp() { echo "$suite" "${packages[@]}"; }

works() { [ "$(cat "$out/stamp" 2>/dev/null)" = "$(stamp)" ] && "$out/python3" -c ''; }

describe() {
  "$out/python3" -c 'import importlib.metadata as m, sys
print(f"PyTorch {m.version("torch")}, Python {sys.version.split()[0]}")'
}

# The mirror of the machine's apt where it is a Debian.
mirror() {
  local id codename
  id=$(. /etc/os-release && echo "$ID")
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
  {
    [ "$id" != debian ] ||
      apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
      sed -n "s/^$codename \(http.*\)/\1/p"
    echo http://deb.debian.org/debian/
  } | sed -n 1p
}

# Links to absolute paths lead out of a root that is not entered by chroot.
relative_links() {
  local link
  find "$1" -xdev -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -sm --relative-to="$(dirname "$link")" "$1$(readlink "$link")")" "$link"
  done
}

# in_root runs a command in the root $1, with the little that apt needs there.
in_root() {
  local dir=$1
  shift
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy+"http_proxy=$http_proxy"} chroot "$dir" "$@"
}

# The interpreter finds its library, as in a virtual environment, by the path
# that it is started as: bin/torch/python3, which is next to lib.
write_wrapper() {
  local dir=$1 loader libs
  cd "$dir"
  loader=$(ls root/usr/lib*/ld-linux*.so.*)
  libs=$(dirname root/usr/lib/*/libc.so.6)
  ln -sfn root/usr/lib lib
  cat >python3 <<WRAPPER
#!/bin/sh
# Starts the Python of root/ without chroot. Written by e2e/torch/setup.sh.
here=\$(dirname "\$(readlink -f "\$0")")
exec "\$here/$loader" --inhibit-cache --library-path "\$here/$libs:\$here/root/usr/lib" \\
  --argv0 "\$0" "\$here/root/usr/bin/python3" "\$@"
WRAPPER
  chmod 755 python3
}

# build runs as root. The root grows in bin/torch.part.
build() {
  local part=$out.part
  if ! command -v debootstrap >/dev/null || [ ! -e "$keyring" ]; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap debian-archive-keyring
  fi
  umount -q "$part/root/proc" "$part/root/sys" || true # of one that was killed
  rm -rf --one-file-system "$part"
  mkdir -p "$part"
  # The script of sid: an older debootstrap does not know trixie by name.
  debootstrap --variant=minbase --include=ca-certificates --keyring="$keyring" "$suite" "$part/root" "$1" /usr/share/debootstrap/scripts/sid
  in_root "$part/root" apt-get install -y -q --no-install-recommends "${packages[@]}"
  in_root "$part/root" apt-get clean
  rm -rf "$part/root"/var/{lib/apt/lists,cache,log}/* "$part/root"/usr/share/{man,info,locale}/*
  find "$part/root/usr/share/doc" ! -type d ! -name copyright -delete
  relative_links "$part/root"
  write_wrapper "$part"
  "$part/python3" -c 'import torch.distributed as d; assert d.is_gloo_available()'
  stamp >"$part/stamp"
  rm -rf --one-file-system "$out"
  mv "$part" "$out"
}

if [ "${1-}" = build ]; then
  build "$2"
  exit
fi

mkdir -p "$root/bin"
exec 9>"$root/bin/.torch.lock"
flock 9

if works; then
  say "$(describe) is in bin/torch"
  exit 0
fi
command -v apt-get >/dev/null ||
  fail "bin/torch is made from Debian's packages, and there is no apt-get. The tests that use it skip without it"
sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "making bin/torch needs root, for debootstrap: not root, and no sudo. The tests that use it skip without it"
  sudo=(sudo --preserve-env=http_proxy)
fi
from=${MIRROR:-$(mirror)}
say "making bin/torch, a root file system of Debian 13 with PyTorch, by debootstrap (installed where it is missing) from $from (1.1 GB, about 2 minutes, once; log: bin/torch.log)"
"${sudo[@]}" "$0" build "$from" >"$out.log" 2>&1 || { tail -n 30 "$out.log" >&2; fail "that failed; all of it: bin/torch.log"; }
say "$(describe) is in bin/torch now"
