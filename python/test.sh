#!/bin/sh
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Runs all tests of the package, or those that are named, as tests.test_state. PYTHON is an interpreter with PyTorch 2.1 or later.
# Tests that fail are run once more by themselves, if they are few, and are named.
set -u
ulimit -S -n 512 # what a test leaves open shows here, and not first where fewer files are allowed
cd "$(dirname "$0")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() {
  "${PYTHON:-../bin/torch/python3}" -X faulthandler -W ignore::DeprecationWarning -m tests "$@"
}

[ $# -gt 0 ] || set -- discover -s tests -t .
{ run "$@" -v 2>&1 || echo "the suite failed"; } | tee "$log"
tail -n 1 "$log" | grep -q '^the suite failed$' || exit 0

# "FAIL: test_x (tests.test_a.TestA.test_x)", of Python before 3.11 without ".test_x".
failed=$(sed -nE 's/^(FAIL|ERROR): ([^ ]+) \(([^ )]+)\).*/\3 \2/p' "$log" | while read -r class name; do
  case $class in
  *."$name") echo "$class" ;;
  *) echo "$class.$name" ;;
  esac
done | sort -u)
number=$(echo "$failed" | grep -c .)
if [ "$number" = 0 ] || [ "$number" -gt 6 ]; then
  exit 1
fi
printf '\n%s failed; run again:\n%s\n' "$number" "$failed"
# shellcheck disable=SC2086 # names without blanks
run -v $failed || exit 1
printf 'FLAKY: these failed and passed when they ran again:\n%s\n' "$failed"
