// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command bench compares Kolo's driver with Horovod's own launcher and with
// PyTorch's, by the same training script on the same machine in one run, and
// writes docs/benchmarks.md.
//
//	make bench                                  # everything, hours
//	make bench ONLY=torch                       # PyTorch's section
//	go run ./e2e/bench -parts recovery -o -     # one part, to the terminal
//	go run ./e2e/bench -parts torch-trained -state 1000 -rounds 3 -raw raw.json -add
//
// All launchers get the same flags: horovodrun, `nomad-driver-horovod run` and
// `nomad-driver-torch run`, which are the driver's agent without Nomad, and
// `bench torchrun` and `bench torchft`, which keep one node for each slot (torchft
// is measured where `make torchft` has put it). Times are those that the training
// processes themselves recorded: the gap is from the last step of the old ring
// to the first step of the new one, lateness from the change of the host list
// (or the kill) to that first step. Where the state is large, the pause leaves out
// what a step takes anyway.
package main
