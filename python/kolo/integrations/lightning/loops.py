# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lightning's loops with changes of the group (lightning/pytorch/loops, 2.6)."""

from __future__ import annotations

import fcntl
import os
import tempfile
from typing import Any

import lightning
from lightning.pytorch.loops.evaluation_loop import _EvaluationLoop
from lightning.pytorch.loops.fit_loop import RestartStage, _FitLoop
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from lightning.pytorch.loops.utilities import _select_data_fetcher
from lightning.pytorch.trainer.states import RunningStage
from lightning.pytorch.utilities import CombinedLoader

import kolo.torch as kolo
from kolo.torch import place, reporting

from .training import Training


class ElasticFitLoop(_FitLoop):  # type: ignore[misc]
    """Lightning's loop over epochs, which runs again in each group."""

    _combined_loader: Any

    @property
    def _kolo(self) -> Training:
        training: Training = self.trainer.strategy.training
        return training

    def run(self) -> None:
        training, inner = self._kolo, super().run

        @kolo.elastic
        def train(state: kolo.State) -> None:
            training.enter()
            inner()

        state = training.begin()
        self.trainer._signal_connector.teardown()  # SIGTERM then ends only this process, and not the training of all
        try:
            train(state)
        finally:
            self.trainer.strategy.model = training.module
            self.trainer.accumulate_grad_batches = training.accumulate

    def setup_data(self) -> None:
        training = self._kolo
        if training.first is None:  # for Trainer.estimated_stepping_batches
            if training.global_batch is None:
                raise ValueError("how many steps there are depends on the number of processes, which changes: trainer.estimated_stepping_batches "
                                 "needs ElasticStrategy(global_batch=…)")
            return
        if self._combined_loader is not None:
            return
        self._combined_loader = CombinedLoader(training.dataloader(), "max_size_cycle")
        self._data_fetcher = _select_data_fetcher(self.trainer, RunningStage.TRAINING)
        self._data_fetcher.setup(self._combined_loader)
        iter(self._data_fetcher)
        self._resuming_from_checkpoint = True  # otherwise epochs after the first begin with another iter()

    def update_restart_stage(self) -> None:
        """Skips an epoch's start if this process has begun the epoch in an earlier group."""
        super().update_restart_stage()
        if self._kolo.within and not self._kolo.first:
            self._restart_stage = RestartStage.RESTARTED_MID_EPOCH

    def on_run_start(self) -> None:
        """Runs the start hooks in a new process, and sets up the validation data in every process, because that uses collectives."""
        trainer, loop = self.trainer, self.epoch_loop
        if self._kolo.first:
            super().on_run_start()
        elif loop._should_check_val_epoch():
            trainer.validating = True
            loop.val_loop.setup_data()
            trainer.training = True

    def on_advance_start(self) -> None:
        self.max_batches = self._kolo.passes
        self.trainer.val_check_batch = self._kolo.val_check_batch()
        self._kolo.compare()
        super().on_advance_start()
        self._kolo.begun = True


class ElasticEpochLoop(_TrainingEpochLoop):  # type: ignore[misc]
    """Lightning's loop over the steps of an epoch, with changes of the group."""

    @property
    def _kolo(self) -> Training:
        training: Training = self.trainer.strategy.training
        return training

    def reset(self) -> None:
        if self._kolo.within:
            self._kolo.within = False
        else:
            super().reset()

    def advance(self, data_fetcher: Any) -> None:
        self._kolo.commit()
        super().advance(data_fetcher)

    def _broadcast_sigterm_tensor(self) -> None:
        """Does nothing: a process that gets SIGTERM leaves, and the others go on."""


class ElasticEvaluationLoop(_EvaluationLoop):  # type: ignore[misc]
    """Lightning's validation within a training, which takes longer than a step."""

    def run(self) -> Any:
        with reporting.slow("validation"):
            return super().run()


def adopt(trainer: Any) -> None:
    """Replaces Lightning's loops in a trainer with those of this module."""
    loop = trainer.fit_loop
    for present, expected, ours in ((loop, _FitLoop, ElasticFitLoop), (loop.epoch_loop, _TrainingEpochLoop, ElasticEpochLoop),
                                    (loop.epoch_loop.val_loop, _EvaluationLoop, ElasticEvaluationLoop)):
        if type(present) not in (expected, ours):
            raise ValueError("%s is not Lightning's %s, which ElasticStrategy replaces itself" % (type(present).__name__, expected.__name__))
        for name in vars(ours):
            if not name.startswith("__") and name != "_kolo" and not hasattr(expected, name):
                raise ValueError("%s of Lightning %s has no %s: kolo.integrations.lightning was made for 2.6" %
                                 (expected.__name__, lightning.__version__, name))
        present.__class__ = ours
    connector = trainer._data_connector
    if "prepare_data" in vars(connector):  # set by an earlier fit
        return
    prepare = connector.prepare_data

    def one_after_another() -> Any:
        """Prepares the data in each process if there is no group yet: a process does not yet know which others share its host."""
        if place.current():
            return prepare()
        path = os.path.join(tempfile.gettempdir(), "kolo-prepare-data-%d" % os.getuid())
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            return prepare()
        finally:
            os.close(file)

    connector.prepare_data = one_after_another
