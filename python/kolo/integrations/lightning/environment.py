# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Ranks and sizes for Lightning."""

from __future__ import annotations

import os

from lightning.fabric.plugins import ClusterEnvironment

import kolo.torch as kolo
from kolo.torch import place


class Environment(ClusterEnvironment):  # type: ignore[misc] # Lightning is not there where this is checked
    """Provides rank and size of the current group. Before the first group, each process counts as alone, with its initial rank."""

    creates_processes_externally = True
    main_address = ""
    main_port = 0

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return kolo.size() if place.current() else 1

    def global_rank(self) -> int:
        return kolo.rank() if place.current() else int(os.environ.get("RANK") or 0)

    def local_rank(self) -> int:
        return kolo.local_rank() if place.current() else 0  # so that each process prepares its data

    def node_rank(self) -> int:
        now = place.current()
        return now.cross_rank if now else 0

    def set_world_size(self, size: int) -> None:
        pass

    def set_global_rank(self, rank: int) -> None:
        pass
