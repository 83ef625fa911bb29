# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends the state to newcomers while the members train.

    place --> group of the members, with a pending group --> function, commits, ...
                                  |                       | the observers have all
              observers:          +-- slices, gradients --+--> switch --> group of all --> function

At a planned change in between, the observers get the rest at that commit,
because the members may be about to leave. After a failure they begin again.
"""
