# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lightning, trained in process while the number of processes changes.

    from kolo.integrations.lightning import ElasticStrategy

    Trainer(strategy=ElasticStrategy(), max_epochs=10).fit(model, data)

Trainer.fit sets everything up in each process by itself: hooks, the model, its
optimizers, a checkpoint. Then its loop is the elastic function, called for each
group. The strategy replaces the classes of two of Trainer's loops
(lightning/pytorch/loops, 2.6):

    ElasticFitLoop      run() is the elastic function; builds the data loader of each group
    ElasticEpochLoop    commits the step that is done, before the next one; goes on within an epoch

Lightning's own way to go on from a checkpoint is not used: it runs hooks and
validations again, or leaves them out.

What scripts have to know:

- Hooks up to on_fit_start, and the sanity check, run in each process before it
  has a group. on_train_start runs once in each process, and on_train_epoch_start
  once for each epoch, also where a process joins within one: no collectives there.
- Callbacks take along what their state_dict has.
- Metrics that Lightning gathers over an epoch of training (on_epoch=True) lack
  what processes have seen that have left within it.
- A scheduler with interval="step" counts steps. Without global_batch there are
  fewer of them the more processes there are.
"""

from .strategy import ElasticStrategy

__all__ = ["ElasticStrategy"]
