#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Puts a Nomad that is new enough at bin/nomad: a link to the one on the PATH,
# else one built from the module in this directory. Does nothing where there
# already is one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/bin/nomad
minimum=1.8.0

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

# version_of prints 1.11.3 for a binary that says "Nomad v1.11.3-dev …".
version_of() { "$1" version 2>/dev/null | sed -n 's/^Nomad v\([0-9.]*\).*/\1/p'; }

new_enough() {
  local v
  v=$(version_of "$1") || return 1
  [ -n "$v" ] && [ "$(printf '%s\n%s\n' "$minimum" "$v" | sort -V | head -n 1)" = "$minimum" ]
}

mkdir -p "$root/bin"
exec 9>"$root/bin/.nomad.lock"
flock 9

if new_enough "$out"; then
  say "Nomad $(version_of "$out") is in bin/nomad"
  exit 0
fi

if found=$(command -v nomad) && new_enough "$found"; then
  say "using Nomad $(version_of "$found") at $found"
  ln -sfn "$found" "$out"
  exit 0
fi

cd "$here"
version=$(go list -mod=mod -m -f '{{.Version}}' github.com/hashicorp/nomad)
say "building Nomad $version from source into bin/nomad (no nomad >= $minimum on the PATH; about 6 minutes on 2 cores, once)"
total=$(go list -mod=mod -deps github.com/hashicorp/nomad | wc -l)
if [ -t 1 ]; then every=1 end='\r'; else every=100 end='\n'; fi
CGO_ENABLED=1 go build -mod=mod -v -trimpath -o "$out.part" github.com/hashicorp/nomad 2>&1 |
  awk -v total="$total" -v every="$every" -v end="$end" '
    /^go: downloading/ { d++; if (d % every == 0) { printf "    %d modules downloaded" end, d; fflush() } next }
    /^[a-zA-Z0-9.\/_-]+$/ { n++; if (n % every == 0) { printf "    %d packages compiled (of at most %d)" end, n, total; fflush() } next }
    { print }
    END { printf "    %d packages compiled\n", n }'
mv "$out.part" "$out"
new_enough "$out" || { echo "bin/nomad does not run, or is older than $minimum" >&2; exit 1; }
say "built Nomad $(version_of "$out")"
