#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Builds the release of the commit that is checked out twice and compares the files byte
# by byte. The second time it is built from a clone at another path, without a build
# cache, in another time zone and locale.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/bin/release

if [ -n "$(git -C "$root" status --porcelain --untracked-files=no)" ]; then
  echo "release-twice: commit first: what is built again is a clone, which has commits alone" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
clone=$work/somewhere/else
git clone --quiet --no-local "$root" "$clone"
mkdir "$work/cache" "$work/tmp"

"$root/.release/release.sh" "$out"
env GOCACHE="$work/cache" TMPDIR="$work/tmp" TZ=Pacific/Kiritimati LC_ALL=C \
  "$clone/.release/release.sh" "$work/again"
(cd "$work/again" && sha256sum --quiet --check SHA256SUMS)
diff -r "$out" "$work/again" || { echo "release-twice: the files above differ" >&2; exit 1; }
echo "==> $(find "$out" -type f | wc -l) files are the same, built twice"
