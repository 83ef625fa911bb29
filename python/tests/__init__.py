# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
