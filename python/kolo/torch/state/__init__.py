# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The state of a training in one process: its values, and how they are committed, encoded and saved to disk."""
