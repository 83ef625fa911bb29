#!/bin/sh
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Runs all tests of the package. PYTHON is an interpreter with PyTorch 2.1 or later.
set -eu
cd "$(dirname "$0")"
exec "${PYTHON:-../bin/torch/python3}" -W ignore::DeprecationWarning -m unittest discover -v -s tests -t . "$@"
