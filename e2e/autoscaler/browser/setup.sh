#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Installs Debian's Chromium, as root on Debian or Ubuntu, unless a browser is there. If that
# is not possible, it states the reason, and the tests of the web page skip.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

for name in chromium chromium-browser google-chrome headless-shell; do
  command -v "$name" >/dev/null && exit 0
done
mkdir -p "$root/bin"
exec 9>"$root/bin/.chromium.lock"
flock 9
command -v chromium >/dev/null && exit 0
if ! command -v apt-get >/dev/null; then
  say "no apt-get here to install chromium with; the tests of the web page skip"
elif [ "$(id -u)" != 0 ]; then
  say "not root, so that chromium is not installed; the tests of the web page skip"
else
  say "installing chromium from Debian's packages (log: bin/chromium.log)"
  {
    apt-get -q -y -o DPkg::Lock::Timeout=600 update
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends chromium
  } >"$root/bin/chromium.log" 2>&1 || { tail -n 20 "$root/bin/chromium.log" >&2; say "that failed (all of it: bin/chromium.log); the tests of the web page skip"; }
fi
