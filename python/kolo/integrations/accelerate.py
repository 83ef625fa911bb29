# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A loop with Hugging Face Accelerate, trained in process while the number of processes changes.

    from kolo.integrations.accelerate import ElasticAccelerator as Accelerator

    accelerator = Accelerator()
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    @accelerator.elastic
    def train():                               # is called again for each group
        for epoch in accelerator.epochs(3):    # goes on in the current epoch
            for batch in loader:               # and with the rest of its batches
                with accelerator.accumulate(model):
                    loss = model(**batch).loss
                    accelerator.backward(loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()

    train()

The objects that prepare returns stay the same in all groups. The model is a
DistributedDataParallel that is constructed again for each group. A loader
iterates over the batches of the epoch that are left for the current ranks. A
step is committed when the loop takes the next batch, and the end of an epoch
when the loop takes the next epoch.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

import accelerate
import torch
from accelerate.data_loader import prepare_data_loader
from torch.nn.parallel import DistributedDataParallel

import kolo.torch as kolo
from kolo.torch import reporting
from kolo.torch.parallel import rewrap

from . import processes, streams
from .batches import Position, RankBatches, Step, deal_evenly
from .samplers import Order

Function = TypeVar("Function", bound=Callable[..., Any])

processes.hide()


class ElasticModel(DistributedDataParallel):
    """A DistributedDataParallel that bind() constructs again for each group."""

    def __init__(self, module: torch.nn.Module, arguments: Dict[str, Any]) -> None:
        torch.nn.Module.__init__(self)
        self.module = module
        self._arguments = arguments

    def bind(self) -> None:
        """Constructs the DistributedDataParallel for the current group. All members call it."""
        rewrap(self, self.module, **self._arguments)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if "reducer" not in self.__dict__:
            raise RuntimeError("there is no group of processes yet: train in a function with @accelerator.elastic")
        return super().forward(*inputs, **named)  # type: ignore[no-untyped-call]


DIVIDED = ("a DataLoader with %s cannot be divided among processes whose number changes: give it batch_size, and shuffle or a sampler, or an "
           "iterable data set")


class ElasticLoader:
    """Iterates over a DataLoader's batches of this rank that are left in the epoch."""

    def __init__(self, accelerator: "ElasticAccelerator", loader: "torch.utils.data.DataLoader[Any]", on_device: bool, number: int) -> None:
        self._streams = streams.is_stream(loader.dataset)
        if self._streams:
            reason = streams.refused(loader.num_workers, loader.persistent_workers)
            if reason is not None:
                raise ValueError("a DataLoader of an iterable data set: " + reason)
        if type(loader.batch_sampler) is not torch.utils.data.BatchSampler or loader.batch_size is None:
            raise ValueError(DIVIDED % "batches of its own")
        self.loader = loader
        self.batch_size = loader.batch_size
        self._order: Any = None
        self.position: Any = streams.StreamPosition()
        if not self._streams:
            # A seed for each loader, so that two loaders of a step do not pair the same samples in each epoch.
            self._order = Order(loader.sampler, lambda: accelerator.progress.seed + (number << 20), loader.drop_last)
            self.position = self._order.position
        self.trained = False  # an optimizer has stepped with its batches in this epoch; otherwise they are for evaluation
        self._begun: Optional[Dict[str, Any]] = None  # the position at which the last iterator has begun, while the iterator exists
        self._total = 0  # steps of any optimizer when that iterator gave its last batch
        self._accelerator = accelerator
        self._source: Any = streams.Source(loader.dataset) if self._streams else None
        self._on_device = on_device

    @property
    def dataset(self) -> Any:
        return self.loader.dataset

    def __len__(self) -> int:
        """Returns the number of batches of a whole epoch in the current group, including finished batches."""
        if self._streams:
            raise TypeError("a DataLoader of an iterable data set has no length")
        return Position(self.position.samples, self.position.drop_last).steps(self._step().samples)

    def __iter__(self) -> Iterator[Any]:
        if not self._accelerator.evaluates:
            yield from self._batches()
            return
        with reporting.slow("evaluation"):
            yield from self._batches()

    def _batches(self) -> Iterator[Any]:
        accelerator, position, step = self._accelerator, self.position, self._step()
        self.put_back()
        loader, begin, number = self._present(step), position.state_dict(), 0
        self._begun, self._total = begin, accelerator.progress.total
        try:
            for number, batch in enumerate(streams.Stream(loader, position) if self._streams else loader, 1):
                # No commit within an evaluation, or after the last batch: epochs() commits at the end of the epoch.
                if self.trained:
                    accelerator.commit()
                # How many samples of the last batch are not repetitions.
                if self._streams:
                    loader.remainder = position.taken.samples % step.samples
                elif number == 1:
                    loader.remainder = (position.samples - begin["used"]) % step.samples
                accelerator.accumulate_for(self.batch_size)
                before, self._total = accelerator.progress.stepped, accelerator.progress.total
                position.advance(step.samples)  # the loop's body gets these samples
                yield batch
                self.trained = self.trained or accelerator.progress.stepped > before
            self._total = accelerator.progress.total  # a loader that another one's commits go with may be read again in an epoch
            if number == 0 and position.used > 0:
                if self.trained:
                    raise RuntimeError("the batches of this epoch are used up: let accelerator.epochs(n) count epochs")
                self.trained = True  # a checkpoint of the end of an epoch, which has no batches left
        finally:
            accelerator.gradient_state._remove_dataloader(loader)  # if it was left early, the loader around it would not be seen to end
            if self._begun is begin:  # no other iterator has begun, and the group is the same
                self.put_back()

    def compare(self) -> None:
        """Raises ValueError if the order of the current epoch is not the same on all ranks, which all call it."""
        if self._order is not None:
            self._order.compare()

    def end_epoch(self) -> None:
        """Starts again with all batches."""
        self.forget()
        self.position.end_epoch()

    def put_back(self) -> None:
        """Goes back to the position before the last iterator, unless an optimizer has stepped with its batches.

        So an evaluation begins again each time, even if the last one was left early.
        """
        if self._begun is not None and not self.trained and self._accelerator.progress.total == self._total:
            self.position.load_state_dict(self._begun)
        self._begun = None

    def forget(self) -> None:
        """Forgets the iterators that still exist. The position stays."""
        self.trained, self._begun = False, None

    def _step(self) -> Step:
        size = kolo.size() if self._accelerator.in_group else 1
        return Step(self._accelerator.share(self.batch_size) * size, 1)

    def _present(self, step: Step) -> Any:
        given = self.loader
        place = (kolo.rank(), kolo.size()) if self._accelerator.in_group else (0, 1)
        options: Dict[str, Any] = {
            "num_workers": given.num_workers, "pin_memory": given.pin_memory, "timeout": given.timeout, "worker_init_fn": given.worker_init_fn,
            "multiprocessing_context": given.multiprocessing_context, "prefetch_factor": given.prefetch_factor}
        if self._streams:
            share = functools.partial(deal_evenly, step=step, rank=place[0], size=place[1])
            present = torch.utils.data.DataLoader(
                streams.StreamBatches(self._source, self.position, step, share, given.drop_last), batch_size=None,
                collate_fn=streams.Collate(given.collate_fn), **options)
        else:
            batches = RankBatches(self.position, self._order, step, step.samples // place[1], *place, deal_evenly)
            present = torch.utils.data.DataLoader(given.dataset, batch_sampler=batches, collate_fn=given.collate_fn, **options)
        # num_processes is 1, because the batches are already those of this rank.
        return prepare_data_loader(present, device=self._accelerator.device, num_processes=1, process_index=0, put_on_device=self._on_device,
                                   dispatch_batches=False)


class Progress:
    """The progress of the training, the same on all ranks. save_state writes it, and load_state reads it."""

    def __init__(self, loaders: List[ElasticLoader], seed: int) -> None:
        self.epoch = 0
        self.steps = 0  # that are committed
        self.stepped = 0  # steps of any optimizer since then
        self.total = 0  # steps of any optimizer in this process
        self.seed = seed  # of the order of the data
        self._loaders = loaders

    @property
    def done(self) -> int:
        """The number of steps that the optimizers have done."""
        return self.steps + int(self.stepped > 0)

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "steps": self.done, "seed": self.seed, "loaders": [one.position.state_dict() for one in self._loaders]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch, self.steps, self.seed, self.stepped = state["epoch"], state["steps"], state["seed"], 0
        for loader, position in zip(self._loaders, state["loaders"]):
            loader.position.load_state_dict(position)
            loader.forget()


# Ways to divide a model among processes: arguments of Accelerator, and the variables of `accelerate launch`.
DIVIDING = {
    "DeepSpeed": (("deepspeed_plugin", "deepspeed_plugins"), "ACCELERATE_USE_DEEPSPEED"),
    "FSDP": (("fsdp_plugin",), "ACCELERATE_USE_FSDP"),
    "Megatron-LM": (("megatron_lm_plugin",), "ACCELERATE_USE_MEGATRON_LM"),
    "tensor, sequence or context parallelism (parallelism_config)": (
        ("torch_tp_plugin", "parallelism_config"), "ACCELERATE_USE_PARALLELISM_CONFIG"),
}


def _check(arguments: Dict[str, Any]) -> None:
    """Raises ValueError for arguments of an Accelerator that divide the model. With one process, Accelerate
    would ignore some of them."""
    for what, (names, variable) in DIVIDING.items():
        if any(arguments.get(name) is not None for name in names) or os.environ.get(variable, "false").lower() == "true":
            raise ValueError("%s is not supported by kolo.integrations.accelerate: shard the model by kolo.Sharded in a loop of your own, or run "
                             "the script without this package, from checkpoints" % what)


class ElasticAccelerator(accelerate.Accelerator):  # type: ignore[misc] # Accelerate is not there where this is checked
    """An Accelerator whose processes may come and go while a function trains.

    Each process takes batches of its loader's batch_size, so a step has more samples
    if there are more processes. The prepared scheduler counts samples, as usual with
    Accelerate.

    With global_batch, a step has that many samples for any number of processes,
    rounded up so that they divide among the processes (see kolo.global_batch). Each process does as
    many passes of at most batch_size as its share needs, and the scheduler counts
    steps. The script must then accumulate gradients with accumulate().
    """

    def __init__(self, *args: Any, global_batch: Optional[int] = None, **named: Any) -> None:
        _check(inspect.signature(accelerate.Accelerator).bind_partial(*args, **named).arguments)
        super().__init__(*args, **named)
        if self.dispatch_batches or self.split_batches:
            raise ValueError("dispatch_batches and split_batches are not supported by kolo.integrations.accelerate: leave them out, because Kolo "
                             "divides the samples among the processes")
        self.global_batch = global_batch
        self.in_group = False
        self._within = False  # in the elastic function
        self._loaders: List[ElasticLoader] = []
        seed = self.dataloader_config.data_seed
        self.progress = Progress(self._loaders, torch.initial_seed() % 2 ** 31 if seed is None else seed)
        self._state: Optional[kolo.State] = None
        self.register_for_checkpointing(self.progress)

    @property
    def steps(self) -> int:
        """The number of steps that the optimizers have done."""
        return self.progress.done

    @property
    def evaluates(self) -> bool:
        """Whether the loop evaluates: its models are in evaluation mode."""
        return bool(self._models) and not any(model.training for model in self._models)

    def prepare_model(self, model: torch.nn.Module, device_placement: Optional[bool] = None, evaluation_mode: bool = False) -> torch.nn.Module:
        placed: torch.nn.Module = super().prepare_model(model, device_placement=device_placement, evaluation_mode=True)
        if evaluation_mode:
            return placed
        wrapped = ElasticModel(placed, self.ddp_handler.to_kwargs() if self.ddp_handler is not None else {})
        self._models[-1] = wrapped
        return wrapped

    def prepare_data_loader(self, data_loader: Any, device_placement: Optional[bool] = None, slice_fn_for_dispatch: Any = None) -> ElasticLoader:
        loader = ElasticLoader(self, data_loader, self.device_placement if device_placement is None else device_placement, len(self._loaders))
        self._loaders.append(loader)
        return loader

    def prepare_optimizer(self, optimizer: Any, device_placement: Optional[bool] = None) -> Any:
        prepared = super().prepare_optimizer(optimizer, device_placement=device_placement)
        prepared.optimizer.register_step_post_hook(self._on_step)
        return prepared

    def prepare_scheduler(self, scheduler: Any) -> Any:
        prepared = super().prepare_scheduler(scheduler)
        prepared.split_batches = self.global_batch is not None  # then it counts steps
        return prepared

    def elastic(self, function: Function) -> Function:
        """Makes function elastic. It is called again for each group, and goes on with the prepared objects. See kolo.torch.elastic."""

        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            @kolo.elastic
            def train(state: kolo.State) -> Any:
                self._enter()
                return function(*args, **named)

            if self._state is not None:
                raise RuntimeError("an Accelerator has one elastic function, which is called once: newcomers begin with it")
            self._state = self._made()
            try:
                with processes.frozen():
                    return train(self._state)
            finally:
                self._within = False

        return run  # type: ignore[return-value]

    def save_state(self, *args: Any, **named: Any) -> Any:
        with reporting.slow("checkpoint"):
            return super().save_state(*args, **named)

    def save_model(self, *args: Any, **named: Any) -> Any:
        with reporting.slow("checkpoint"):
            return super().save_model(*args, **named)

    def load_state(self, *args: Any, **named: Any) -> Any:
        if self._within:
            raise RuntimeError("call load_state before the function with @accelerator.elastic: within it, each group would load the state again")
        return super().load_state(*args, **named)

    def epochs(self, count: int) -> Iterator[int]:
        """Yields the remaining epochs of count, beginning with the current epoch. Commits at the end of each epoch."""
        while self.progress.epoch < count:
            for loader in self._loaders:
                loader.compare()
            yield self.progress.epoch
            self.progress.epoch += 1
            for loader in self._loaders:
                loader.end_epoch()
            self._commit()

    def commit(self) -> None:
        """Commits if an optimizer has stepped since the last commit and no gradients are being accumulated. Loaders call it."""
        if self.progress.stepped and self.sync_gradients:
            self._commit()

    def share(self, batch_size: int) -> int:
        """Returns how many samples a rank takes in one pass of a loader with this batch_size."""
        return batch_size if self.global_batch is None or not self.in_group else kolo.global_batch(self.global_batch, batch_size).size

    def accumulate_for(self, batch_size: int) -> None:
        """Sets how many batches of a loader with this batch_size the loop's body accumulates for one step."""
        if self.global_batch is not None:
            self.gradient_accumulation_steps = kolo.global_batch(self.global_batch, batch_size).accumulate

    def _on_step(self, *_: Any) -> None:
        self.progress.stepped += 1
        self.progress.total += 1

    def _commit(self) -> None:
        self.progress.steps, self.progress.stepped = self.steps, 0
        kolo.progress(step=self.progress.steps, epoch=self.progress.epoch)
        if self._state is not None:
            self._state.commit()

    def _made(self) -> kolo.State:
        """Makes the state from all objects that were prepared or registered for checkpoints."""
        values: Dict[str, Any] = {"rng": kolo.RNG()}
        kinds = {
            "model": [self.unwrap_model(model, keep_torch_compile=False) for model in self._models],
            "optimizer": [optimizer.optimizer for optimizer in self._optimizers],
            "scheduler": [scheduler.scheduler for scheduler in self._schedulers],
            "registered": self._custom_objects,
            "scaler": [self.scaler] if self.scaler is not None else [],
        }
        for kind, objects in kinds.items():
            values.update({"%s%d" % (kind, number): one for number, one in enumerate(objects)})
        return kolo.State(**values)

    def _enter(self) -> None:
        """Begins to train in the current group."""
        processes.enter()
        self.in_group = self._within = True
        self.step, self.progress.stepped = 0, 0
        self.gradient_state._set_sync_gradients(True)
        for loader in self._loaders:
            loader.put_back()
            loader.forget()  # as in newcomers
        for model in self._models:
            if isinstance(model, ElasticModel):
                model.bind()
                if self.ddp_handler is not None:
                    self.ddp_handler.register_comm_hook(model)
