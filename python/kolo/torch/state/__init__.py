# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The state of a training in one process: what it is made of, how it is committed, encoded and kept on disk."""
