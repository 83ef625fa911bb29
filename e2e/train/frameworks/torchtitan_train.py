# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""torchtitan: unchanged, or with the additions of docs/howto/run-a-torchrun-script.md (page.py).

torchtitan 0.3 trains on GPUs only. Here torch.cpu takes the place of torch.cuda, and the
smallest model has an attention that CPUs can compute.
"""

import sys
from dataclasses import dataclass, fields
from types import SimpleNamespace

import recorder
import torch
import torch._utils
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

for name, answer in {
    "current_device": 0,
    "empty_cache": None,
    "get_device_name": "cpu",
    "get_device_properties": SimpleNamespace(total_memory=1 << 30),
    "memory_stats": {},
    "reset_peak_memory_stats": None,
    "set_device": None,
}.items():
    setattr(torch.cpu, name, lambda *_, answer=answer: answer)
torch._utils._get_available_device_type = lambda: "cpu"
torch._utils._get_device_module = lambda name: getattr(torch, name)

from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402


class Tokenizer(BaseTokenizer):
    """Does nothing, because the samples are tokens already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **_):
        super().__init__()

    def encode(self, *_, **__):
        raise NotImplementedError

    def decode(self, *_, **__):
        raise NotImplementedError

    def get_vocab_size(self):
        return 2048


class Data(BaseDataLoader):
    """Sequences that repeat one token, which a model can learn."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config, *, seq_len, local_batch_size, dp_world_size, **_):
        self.shape, self.size = (local_batch_size, seq_len), dp_world_size

    def __iter__(self):
        while True:
            tokens = torch.randint(2048, (self.shape[0], 1)).expand(self.shape).contiguous()
            yield {"input": tokens}, tokens

    def state_dict(self):
        return {"size": self.size}

    def load_state_dict(self, state):
        assert state["size"] == self.size, "a dataloader of torchtitan cannot go on with another number of ranks"


base = Trainer
if sys.argv[1] == "added":
    from page import ElasticTrainer as base


class Recorded(base):
    @dataclass(kw_only=True, slots=True)
    class Config(base.Config):
        pass

    def __init__(self, config):
        super().__init__(config)
        for module in self.model_parts[0].modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)  # for Gloo

    def train_step(self, *args):
        super().train_step(*args)
        recorder.step(self.step, dist.get_rank(), dist.get_world_size())


debug = llama3_debugmodel()
config = Recorded.Config(**{field.name: getattr(debug, field.name) for field in fields(debug)})
config.tokenizer, config.dataloader = Tokenizer.Config(), Data.Config()
config.training.local_batch_size, config.training.seq_len, config.training.steps = 2, 16, 100000
config.training.disable_cuda_graphs, config.training.mixed_precision_param = True, "float32"
config.metrics.log_freq = 1000
config.checkpoint.enable, config.checkpoint.interval, config.checkpoint.keep_latest_k = True, recorder.EVERY, 2
if sys.argv[1] != "added":
    config.checkpoint.exclude_from_loading = ["dataloader"]  # or it ends
model = config.model_spec.model
model.layers = model.layers[:1]
model.layers[0].attention.inner_attention = ScaledDotProductAttention.Config()
config.build().train()
