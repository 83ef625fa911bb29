// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command chaos makes trouble for elastic training on this machine, and reports
// whether a step was lost or training stood still. Hosts come, go and change
// their slots, processes are killed and frozen at any moment, several things at
// once; the seed states which and when.
//
//	make chaos                          # one minute
//	make chaos SEED=7 SEEDS=10 FOR=5m   # seeds 7 to 16
//	make chaos FRAMEWORK=torch          # PyTorch in process
//	make chaos CHANGES=1000 FRAMEWORK=horovod,torch
//
// It runs real Horovod under `nomad-driver-horovod run`, or real PyTorch under
// `nomad-driver-torch run`, which is the driver's agents and leader without
// Nomad. The script writes a checkpoint with each commit, so whatever dies,
// training must never go on from before the last one; and left alone, it must
// get to a ring of all listed slots. Each sample must be used once an epoch: the model
// counts the uses in its weights, which are part of the state that survives. PyTorch's
// script records its generations, so there the record of the steps that training has kept
// must say the same.
// What processes do is a matter of microseconds: a seed that has failed may need
// several runs to fail again.
//
// Whenever all ranks train, memory and descriptors of the launcher, which has the
// agents in it, and of the training processes are looked at. A run fails if
// processes have more the more changes or rings they have seen. A run of so many
// changes spares one process for hundreds of them, so that it sees many rings.
package main
