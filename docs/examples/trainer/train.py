# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A tiny GPT-2 with the Trainer of Hugging Face Transformers, in process."""

import argparse
import inspect

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from kolo.integrations.transformers import elastic  # before TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=50)
parser.add_argument("--batch", type=int, default=24, help="sequences of a step, of all processes together")
parser.add_argument("--checkpoints", default="checkpoints", help="directory that all hosts share")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


class Bytes(torch.utils.data.Dataset):
    """The source of a Python module in sequences of 64 bytes: a text that needs no download."""

    def __init__(self, first, last):
        text = inspect.getsource(argparse).encode()
        self.sequences = [list(text[64 * i:64 * (i + 1)]) for i in range(first, last)]

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, index):
        return {"input_ids": self.sequences[index], "labels": self.sequences[index]}


set_seed(args.seed)
# Without dropout, whose random numbers are those of each process.
model = GPT2LMHeadModel(GPT2Config(
    vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(
    output_dir=args.checkpoints, num_train_epochs=args.epochs, per_device_train_batch_size=24, learning_rate=3e-3, lr_scheduler_type="cosine",
    seed=args.seed, eval_strategy="epoch", logging_strategy="epoch", save_steps=500, save_total_limit=2, report_to="none", disable_tqdm=True)
trainer = Trainer(model=model, args=arguments, train_dataset=Bytes(0, 960), eval_dataset=Bytes(960, 1080))
elastic(trainer, global_batch=args.batch).train()
