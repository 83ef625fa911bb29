// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command bench measures Kolo's driver beside Horovod's own launcher, and beside
// PyTorch's, with the same training script on the same machine in one run, and
// writes docs/benchmarks.md.
//
//	make bench                                  # everything, about 50 minutes
//	make bench ONLY=torch                       # PyTorch's section
//	go run ./e2e/bench -parts recovery -o -     # one part, to the terminal
//
// All launchers get the same flags: horovodrun, `nomad-driver-horovod run` and
// `nomad-driver-torch run`, which are the driver's agent without Nomad, and
// `bench torchrun`, which keeps one torchrun for each slot. Times are those that the training
// processes themselves recorded: the gap is from the last step of the old ring
// to the first step of the new one, lateness from the change of the host list
// (or the kill) to that first step.
package main
