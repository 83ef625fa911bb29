# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends the state to newcomers while the members train.

    place --> group of the members, with a pending group --> function, commits, ...
                                  |                       | the observers have all
              observers:          +-- slices, gradients --+--> switch --> group of all --> function

If a planned change comes before the switch, the observers receive the rest at that
commit, because the members may be about to leave. After a failure, the observers
begin again.
"""
