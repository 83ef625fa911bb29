# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lightning, trained in process while the number of processes changes.

    from kolo.integrations.lightning import ElasticStrategy

    Trainer(strategy=ElasticStrategy(), max_epochs=10).fit(model, data)

Trainer.fit sets everything up in each process separately: hooks, the model, its
optimizers, a checkpoint. Then its loop is the elastic function, called for each
group. The strategy replaces the classes of two of Trainer's loops
(lightning/pytorch/loops, 2.6):

    ElasticFitLoop      run() is the elastic function; makes the data loader of each group
    ElasticEpochLoop    commits the last step before the next one; goes on within an epoch

Lightning's own way to go on from a checkpoint is not used, because it repeats hooks
and validations, or leaves them out.

Scripts should know:

- Hooks up to on_fit_start, and the sanity check, run in each process before it
  has a group.
- on_train_start runs once in each process, and on_train_epoch_start once in each
  process and epoch. A process that joins within an epoch runs them alone, so they
  must not use collectives.
- Newcomers get the state_dict of callbacks.
- Metrics over a training epoch (on_epoch=True) lack the samples of processes that
  have left within it.
- A scheduler with interval="step" counts steps. Without global_batch, more
  processes mean fewer steps.
"""

from .strategy import ElasticStrategy

__all__ = ["ElasticStrategy"]
