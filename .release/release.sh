#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Builds the release of this checkout into the directory that is named, with the GoReleaser
# of $GORELEASER. With -tagged, it fails unless the checkout is that of a tag.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$1
shift

cd "$root/.release"
stamp=$(go run . stamp "$@")
# shellcheck disable=SC2163,SC2086 # several variables
export $stamp
go run . stage ../bin/stage
cd "$root"
# One build at a time: an archive has its programs in the order in which they were built.
"$GORELEASER" release --snapshot --clean --parallelism 1
rm -rf "$out"
mkdir -p "$out"
cd bin/dist
# shellcheck disable=SC2046 # names without spaces
mv SHA256SUMS $(cut -c67- SHA256SUMS) "$out"
echo "==> $(find "$out" -type f | wc -l) files in $out"
