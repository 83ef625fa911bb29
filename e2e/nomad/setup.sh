#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# usage: setup.sh [VERSION|PATH]
#
# Puts a Nomad that is new enough at bin/nomad: a link to the one on the PATH,
# else one built from the module in this directory. Does nothing where there
# already is one.
#
# With VERSION, such as 1.10.5, builds that one from its module into
# bin/nomad-VERSION, next to the others. With PATH, which has a slash, only checks
# the program there. Neither touches bin/nomad.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/bin/nomad
module=github.com/hashicorp/nomad
minimum=1.8.0
wanted=${1:-}

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
warn() { printf '\033[1;31m==> WARNING: %s\033[0m\n' "$*" >&2; }
fail() { echo "$*" >&2; exit 1; }

# prints_of is what a binary prints as its version, in one line.
prints_of() { { "$1" version 2>&1 || echo "$1 does not run"; } | tr '\n' ' '; }

# full_version_of prints 1.11.3-dev for a binary that says "Nomad v1.11.3-dev …".
full_version_of() { "$1" version 2>/dev/null | sed -n 's/^Nomad v\([0-9][^ ]*\).*/\1/p'; }

# version_of is the same without what follows the numbers.
version_of() { full_version_of "$1" | sed 's/^\([0-9.]*\).*/\1/'; }

at_least_minimum() { [ "$(printf '%s\n%s\n' "$minimum" "$1" | sort -V | head -n 1)" = "$minimum" ]; }

new_enough() {
  local v
  v=$(version_of "$1") || return 1
  [ -n "$v" ] && at_least_minimum "$v"
}

# build makes $1 from the packages of the module that go build's other
# arguments select.
build() {
  local to=$1 total every end
  shift
  total=$(go list -deps "$@" | wc -l)
  if [ -t 1 ]; then every=1 end='\r'; else every=100 end='\n'; fi
  CGO_ENABLED=1 go build -v -trimpath -o "$to.part" "$@" 2>&1 |
    awk -v total="$total" -v every="$every" -v end="$end" '
      /^go: downloading/ { d++; if (d % every == 0) { printf "    %d modules downloaded" end, d; fflush() } next }
      /^[a-zA-Z0-9.\/_-]+$/ { n++; if (n % every == 0) { printf "    %d packages compiled (of at most %d)" end, n, total; fflush() } next }
      { print }
      END { printf "    %d packages compiled\n", n }'
  mv "$to.part" "$to"
}

# build_version builds a version as its main module, with the dependencies that
# it pins. Its go.mod takes the API from a directory next to it, which is a module
# of its own, published by its commit.
build_version() {
  local v=$1 to=$2 work dir time commit api
  work=$(mktemp -d "$root/bin/.nomad-$v.XXXX")
  # shellcheck disable=SC2064 # the directory of now
  trap "rm -rf '$work'" EXIT
  cd "$work"
  go mod download "$module@v$v" || fail "no Nomad v$v can be had from the module proxy; build it, and use NOMAD=<path>"
  read -r dir time commit < <(go list -m -f '{{.Dir}} {{.Time.UTC.Format "20060102150405"}} {{with .Origin}}{{.Hash}}{{end}}' "$module@v$v")
  [ -n "$commit" ] || fail "the module proxy does not name the commit of Nomad v$v; build it, and use NOMAD=<path>"
  install -m 644 "$dir/go.mod" build.mod
  install -m 644 "$dir/go.sum" build.sum
  api=$module/api@v0.0.0-$time-${commit:0:12}
  go mod download "$api" || fail "the module proxy has Nomad v$v, but not the API that it is built with ($api); build it, and use NOMAD=<path>"
  go mod edit -replace "$module/api=$api" build.mod
  cd "$dir"
  build "$to" -mod=mod -modfile "$work/build.mod" .
}

mkdir -p "$root/bin"
exec 9>"$root/bin/.nomad.lock"
flock 9

if [[ $wanted =~ ^v?([0-9]+\.[0-9]+\.[0-9]+.*)$ ]]; then
  version=${BASH_REMATCH[1]} out=$out-${BASH_REMATCH[1]}
  at_least_minimum "$version" || fail "Nomad $version is older than $minimum"
  if [ ! -e "$out" ]; then
    say "building Nomad $version from source into bin/nomad-$version (about 6 minutes on 2 cores, once)"
    build_version "$version" "$out"
  fi
  [ "$(full_version_of "$out")" = "$version" ] || fail "$out is no Nomad $version: it prints '$(prints_of "$out")'; remove it to have it built again"
  say "using Nomad $version in bin/nomad-$version"
  exit 0
elif [[ $wanted == */* ]]; then
  [ -x "$wanted" ] || fail "NOMAD=$wanted is no program"
  version=$(version_of "$wanted") || true
  if [ -z "$version" ]; then
    warn "$wanted prints '$(prints_of "$wanted")', not 'Nomad v<version>'; it is used as it is"
  elif ! at_least_minimum "$version"; then
    fail "$wanted is Nomad $version, older than $minimum"
  fi
  say "using Nomad ${version:-of unknown version} at $wanted"
  exit 0
elif [ -n "$wanted" ]; then
  fail "NOMAD=$wanted is neither a version, such as 1.10.5, nor a path with a slash"
fi

if new_enough "$out"; then
  say "Nomad $(version_of "$out") is in bin/nomad"
  exit 0
fi
if [ -e "$out" ]; then
  warn "bin/nomad prints '$(prints_of "$out")', not 'Nomad v<version>' with a version from $minimum on"
  warn "it is moved to bin/nomad.old and REPLACED; to run the tests with it: make e2e NOMAD=bin/nomad.old"
  mv "$out" "$out.old"
fi

if found=$(command -v nomad) && new_enough "$found"; then
  say "using Nomad $(version_of "$found") at $found"
  ln -sfn "$found" "$out"
  exit 0
fi

cd "$here"
version=$(go list -mod=mod -m -f '{{.Version}}' "$module")
say "building Nomad $version from source into bin/nomad (no nomad >= $minimum on the PATH; about 6 minutes on 2 cores, once)"
build "$out" -mod=mod "$module"
new_enough "$out" || fail "bin/nomad does not run, or is older than $minimum"
say "built Nomad $(version_of "$out")"
