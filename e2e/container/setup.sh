#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Puts what e2e/container needs in place, and reports what it installs:
#
#   podman, runc, docker.io   Debian's packages, as root on Debian or Ubuntu
#   CNI plugins               likewise (containernetworking-plugins), for e2e's networks
#   bin/nomad-driver-podman   HashiCorp's task driver, built from source
#
# It starts no daemon and changes no configuration: the tests run engines of their
# own. What it can't have is left out, with the reason, and the tests that need it
# skip.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
driver=$root/bin/nomad-driver-podman
module=github.com/hashicorp/nomad-driver-podman
version=v0.6.5 # the newest that the module proxy has

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

# install_packages installs those of the commands' packages that are missing. Apt must not
# start their daemons.
install_packages() {
  local missing=() pair
  for pair in podman:podman runc:runc dockerd:docker.io; do
    [ -n "$(PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}")" ] || missing+=("${pair##*:}")
  done
  [ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here to install ${missing[*]} with; tests of e2e/container that need them skip"
    return 0
  fi
  if [ "$(id -u)" != 0 ]; then
    say "not root, so that ${missing[*]} are not installed; tests of e2e/container that need them skip"
    return 0
  fi
  say "installing ${missing[*]} from Debian's packages (log: bin/container.log)"
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    # shellcheck disable=SC2064 # the path of now
    trap "rm -f '$policy'" EXIT
  fi
  local apt=(apt-get -q -y -o DPkg::Lock::Timeout=600)
  {
    "${apt[@]}" update
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "${missing[@]}"
  } >"$root/bin/container.log" 2>&1 || { tail -n 30 "$root/bin/container.log" >&2; say "that failed (all of it: bin/container.log); tests of e2e/container that need them skip"; }
}

# build_driver builds the module as its main module: it has replace lines, which
# go install refuses. It is stamped with its version in the name of the link.
build_driver() {
  local built=$driver-$version work dir
  if [ ! -e "$built" ]; then
    say "building nomad-driver-podman $version from source into bin/ (about 2 minutes on 2 cores, once)"
    work=$(mktemp -d "$root/bin/.podman.XXXX")
    # shellcheck disable=SC2064 # the directory of now
    trap "rm -rf '$work'" RETURN
    (cd "$work" && go mod download "$module@$version")
    dir=$(cd "$work" && go mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
    cp -r "$dir/." "$work"
    chmod -R u+w "$work"
    (cd "$work" && CGO_ENABLED=0 go build -trimpath -o "$built.part" .)
    mv "$built.part" "$built" || return 1
  fi
  ln -sfn "${built##*/}" "$driver"
}

mkdir -p "$root/bin"
exec 9>"$root/bin/.container.lock"
flock 9

install_packages
command -v podman >/dev/null && command -v runc >/dev/null || exit 0
(build_driver) || { say "nomad-driver-podman could not be built; tests of e2e/container that need it skip"; exit 0; }
say "$(podman --version), $(runc --version | head -n 1), nomad-driver-podman $version$(command -v dockerd >/dev/null && echo ", $(dockerd --version | cut -d, -f1)" || true)"
