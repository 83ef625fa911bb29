#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# build.sh <python> <directory> [fetch]: compiles Horovod against the PyTorch of
# a Python, with Gloo and without MPI, and leaves its source and the wheel in the
# directory; with fetch, only the source. A source that is there is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$1
out=$(cd "$2" && pwd)
version=$(sed -n 's/^horovod==\([^ ]*\).*/\1/p' "$here/requirements.txt")

# The C++ that the headers of this PyTorch need.
standard() {
  "$python" -c 'import re, torch
v = tuple(int(n) for n in re.findall("[0-9]+", torch.__version__)[:2])
print(14 if v < (2, 1) else 17 if v < (2, 13) else 20)'
}

# port changes the source of Horovod's last release, of 2023, for PyTorch and
# compilers that came later. docs/howto/python-environment.md has the same steps.
port() {
  local cxx
  cxx=$(standard) # Horovod's master has 17, too
  sed -i "s/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD $cxx/" CMakeLists.txt horovod/torch/CMakeLists.txt
  # An operator assigns this member, which GCC 14 refuses.
  sed -i 's/^  const size_type count_;/  size_type count_;/' third_party/flatbuffers/include/flatbuffers/stl_emulation.h
  # Newer standard libraries no longer include these headers indirectly.
  export CXXFLAGS='-include stdexcept -include string -include cstdint'
  # Gloo and flatbuffers declare a minimum that CMake 4 no longer supports.
  export CMAKE_POLICY_VERSION_MINIMUM=3.5
}

[ -e "$out/horovod-$version.tar.gz" ] ||
  "$python" -m pip download --no-build-isolation --no-deps --no-binary horovod \
    --require-hashes -r "$here/requirements.txt" -d "$out"
[ "${3-}" != fetch ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$out/horovod-$version.tar.gz" -C "$work"
cd "$work/horovod-$version"
port
HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
  HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_CPU_OPERATIONS=GLOO \
  MAKEFLAGS=-j2 \
  "$python" -m pip wheel -v --no-build-isolation --no-deps -w "$out" .
