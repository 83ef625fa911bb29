// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command bench compares Kolo's driver with Horovod's and PyTorch's own launchers,
// with the same training script on the same machine in one run, and writes
// docs/benchmarks.md.
//
//	make bench                                  # everything, hours
//	make bench ONLY=torch                       # PyTorch's section
//	make bench ONLY=run                         # whole runs, disturbed: 90 minutes; FAST=1 for 10
//	make bench ONLY=sharded                     # sharded models: 15 minutes, and 18 GB of memory
//	go run ./e2e/bench -parts recovery -o -     # one part, to the terminal
//	go run ./e2e/bench -parts torch-trained -state 1000 -rounds 3 -raw raw.json -add
//
// All launchers get the same flags. The launchers are horovodrun, and the driver's
// agent without Nomad (`nomad-driver-horovod run` and `nomad-driver-torch run`).
// Torchrun and torchft have no host discovery: `bench torchrun` and `bench torchft`
// wrap them, and start one node for each slot. `bench by-hand` starts the ranks of a
// group that never changes, which is the reference of whole runs. Torchft is measured
// only if `make torchft` has installed it. All times are recorded by the training
// processes themselves. The gap is from the last step of the old ring to the first
// step of the new one. Lateness is from the change of the host list (or the kill) to
// that first step. In measurements with a large state, the usual time of a step is
// subtracted from the pause.
package main
