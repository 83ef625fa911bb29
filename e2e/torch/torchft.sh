#!/bin/sh
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Puts torchft into bin/torchft, for the Python of bin/torch (make torch), to be
# compared with Kolo: a wheel of 2.5 MB and what it imports, 23 MB in all. It asks
# for PyTorch 2.7, but runs with 2.6 as e2e/train/torchft_train.py uses it.
set -eu
cd "$(dirname "$0")/../.."
site=bin/torchft
version=0.2.0

if [ -e "$site/torchft-$version.dist-info" ]; then
  exit 0
fi
echo "installing torchft $version from PyPI into $site"
rm -rf "$site"
bin/torch/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --only-binary :all: --no-deps \
  --target "$site" "torchft==$version"
bin/torch/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --only-binary :all: \
  --target "$site" "opentelemetry-exporter-otlp-proto-http>=1.39.0" "opentelemetry-sdk>=1.39.0"
