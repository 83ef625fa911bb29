# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends the state to members that lack it, while all members wait."""
