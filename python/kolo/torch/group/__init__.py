# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The group of processes that train together: how it forms, agrees, breaks and is left."""
