#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# Runs ruff and mypy on the Python package; make lint does. Their configuration is
# in pyproject.toml, and these are their releases:
set -euo pipefail
packages=(mypy==2.4.1 ruff==0.17.6)

cd "$(dirname "$0")"
bin=$(cd .. && pwd)/bin
tools=$bin/python-tools
say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

mkdir -p "$bin"
exec 9>"$bin/.python-tools.lock"
flock 9

# Another pin is another environment.
if [ "$(cat "$tools/stamp" 2>/dev/null)" != "${packages[*]}" ]; then
  say "installing ${packages[*]} into bin/python-tools"
  rm -rf "$tools"
  python3 -m venv "$tools"
  if ! "$tools/bin/pip" -q --disable-pip-version-check install "${packages[@]}" >"$tools.log" 2>&1; then
    if grep -q 'Retrying (' "$tools.log"; then
      say "SKIPPED: mypy and ruff, because PyPI cannot be reached"
      exit 0
    fi
    tail -n 5 "$tools.log" >&2
    exit 1
  fi
  echo "${packages[*]}" >"$tools/stamp"
fi

say "ruff"
"$tools/bin/ruff" check -q --config pyproject.toml . ../docs/examples ../e2e/frameworks/examples

# The types are those of Debian's PyTorch. Without it, all of PyTorch is Any.
torch=$bin/torch/python3
if "$torch" -c '' 2>/dev/null; then
  say "mypy"
  "$tools/bin/mypy" --python-executable "$torch"
else
  say "mypy, without the types of PyTorch: make torch"
  "$tools/bin/mypy" --allow-subclassing-any --no-warn-unused-ignores --no-warn-return-any
fi
