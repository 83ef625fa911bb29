// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command chaos disturbs elastic training on this machine, and reports whether steps were
// lost or training stopped. Hosts come, go and change their slots, and processes are killed
// and frozen at any moment, several at once. The seed determines what happens and when.
//
//	make chaos                          # one minute
//	make chaos SEED=7 SEEDS=10 FOR=5m   # seeds 7 to 16
//	make chaos FRAMEWORK=torch          # PyTorch in process
//	make chaos CHANGES=1000 FRAMEWORK=horovod,torch
//
// It runs real Horovod under `nomad-driver-horovod run`, or real PyTorch under
// `nomad-driver-torch run`. These subcommands run the driver's agents and leader without
// Nomad. The script writes a checkpoint with each commit. So training must never resume
// from before the last commit, whatever dies. After the disturbances end, it must reach a
// ring of all listed slots. Each sample must be used once per epoch. The model counts the
// uses in its weights, which are part of the state that survives. PyTorch's script also
// records the generation of each step. This record shows which steps training has kept, and
// these, too, must use each sample once per epoch. Failures depend on microseconds, so a
// seed that has failed may need several runs to fail again.
//
// Whenever all ranks train, chaos measures the memory and the open descriptors of the
// launcher, which contains the agents, and of the training processes. A run fails if these
// grow with the number of changes or rings. A run of a fixed number of changes leaves one
// process alone for hundreds of changes, so that this process sees many rings.
package main
