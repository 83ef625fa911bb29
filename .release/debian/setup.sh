#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes bin/debian/bookworm and bin/debian/trixie, root file systems of Debian 12 and 13
# with systemd, by debootstrap. Does nothing where they are. MIRROR names another mirror.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/bin/debian
mirror=${MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "make e2e-packages: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "this needs root, for debootstrap and chroot"
if ! command -v debootstrap >/dev/null || [ ! -e "$keyring" ]; then
  command -v apt-get >/dev/null || fail "there is no debootstrap, and no apt-get to install it with"
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap debian-archive-keyring
fi
mkdir -p "$out"
for suite in bookworm trixie; do
  [ -e "$out/$suite" ] && continue
  printf '\033[1m==> making bin/debian/%s by debootstrap (log: bin/debian/%s.log)\033[0m\n' "$suite" "$suite"
  rm -rf --one-file-system "$out/$suite.part"
  # The script of sid: an older debootstrap does not know trixie by name.
  debootstrap --variant=minbase --include=systemd --keyring="$keyring" "$suite" "$out/$suite.part" "$mirror" \
    /usr/share/debootstrap/scripts/sid >"$out/$suite.log" 2>&1 || { tail -n 20 "$out/$suite.log" >&2; fail "debootstrap of $suite failed"; }
  chroot "$out/$suite.part" apt-get clean
  mv "$out/$suite.part" "$out/$suite"
done
