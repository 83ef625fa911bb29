# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A language model, trained by Transformers' Trainer, that records what its tests check. Its options are environment variables."""

import json
import os
import time

import torch
from recording import Shelves, averaged, averages, directory, option, record, scaler, streamed, total
from transformers import EarlyStoppingCallback, GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import kolo.torch as kolo
from kolo.integrations.transformers import elastic

SAMPLES, EPOCHS = option("SAMPLES", 240), option("EPOCHS", 1.0)


class Texts(torch.utils.data.Dataset):
    """Sequences that count up, each with its index."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        ids = (torch.arange(16) + index) % 64
        return {"input_ids": ids, "labels": ids, "index": index}


class Recorded(Trainer):
    used = []

    def compute_loss(self, model, inputs, **named):
        indices = inputs.pop("index").tolist()
        if model.training:
            self.used += indices
            time.sleep(option("SLEEP", 0.02))
        return super().compute_loss(model, inputs, **named)

    def _get_train_sampler(self, dataset=None):
        return Shelves(dataset) if option("SAMPLER", 0) else super()._get_train_sampler(dataset)


class Average(TrainerCallback):
    """A moving average of the weights, which goes along as the state of the callback."""

    def __init__(self, model):
        self.model = averaged(model)

    def on_step_end(self, args, state, control, model, **named):
        self.model.update_parameters(model)

    def state_dict(self):
        return self.model.state_dict()

    def load_state_dict(self, state):
        self.model.load_state_dict(state)


class Recorder(TrainerCallback):
    def on_train_begin(self, args, state, control, **named):
        Recorded.used.clear()
        record("ring", generation=kolo.generation(), size=kolo.size(), rank=kolo.rank(), step=state.global_step,
               compiled=torch._dynamo.utils.counters["frames"]["ok"] if args.torch_compile else 0)

    def on_step_end(self, args, state, control, **named):
        record("step", generation=kolo.generation(), size=kolo.size(), rank=kolo.rank(), step=state.global_step, epoch=int(state.epoch - 1e-9),
               fraction=state.epoch, indices=list(Recorded.used), accumulate=args.gradient_accumulation_steps, total=state.max_steps,
               rate=named["lr_scheduler"].get_last_lr()[0])
        Recorded.used.clear()

    def on_evaluate(self, args, state, control, metrics, **named):
        record("evaluation", generation=kolo.generation(), step=state.global_step, loss=metrics["eval_loss"])

    def on_log(self, args, state, control, logs, **named):
        if state.is_world_process_zero:
            record("log", generation=kolo.generation(), step=state.global_step, logs=logs)


torch.manual_seed(0)
torch.set_num_threads(1)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
arguments = TrainingArguments(
    output_dir=os.path.join(os.path.dirname(directory), "output"), num_train_epochs=EPOCHS, remove_unused_columns=False, report_to="none",
    disable_tqdm=True, use_cpu=True, per_device_train_batch_size=option("BATCH", 4), gradient_accumulation_steps=option("ACCUMULATE", 1),
    learning_rate=1e-3, dataloader_num_workers=option("WORKERS", 0),
    **{"logging_steps": 5, "lr_scheduler_type": "linear", **json.loads(option("ARGUMENTS", "{}"))})
model = GPT2LMHeadModel(config)
average = Average(model)
trainer = Recorded(model=model, args=arguments, train_dataset=streamed(Texts(SAMPLES)), eval_dataset=Texts(32), callbacks=[Recorder(), average])
if option("SCALER", 0):
    trainer.accelerator.scaler = scaler()
if option("PATIENCE", 0):
    trainer.add_callback(EarlyStoppingCallback(option("PATIENCE", 0), early_stopping_threshold=100))  # nothing is an improvement
result = elastic(trainer, global_batch=option("GLOBAL", 0) or None).train(resume_from_checkpoint=option("RESUME", "") or None)
if option("AFTER", 0):
    loss = trainer.evaluate()["eval_loss"]
    predictions = trainer.predict(Texts(30)).predictions
    trainer.save_model()
    record("after", loss=loss, predictions=len(predictions), saved=trainer.args.should_save)
scale = trainer.accelerator.scaler.get_scale() if option("SCALER", 0) else None
record("done", sum=total(trainer.model), samples=SAMPLES * int(EPOCHS), loss=result.training_loss, step=result.global_step,
       flos=trainer.state.total_flos, scale=scale, **averages(average.model))
