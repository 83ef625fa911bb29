// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command bench measures Kolo's driver beside Horovod's own launcher, with the
// same training script on the same machine in one run, and writes
// docs/benchmarks.md.
//
//	make bench                                  # everything, about 25 minutes
//	go run ./e2e/bench -parts recovery -o -     # one part, to the terminal
//
// Both launchers get the same flags: horovodrun, and `nomad-driver-horovod run`,
// which is the driver's agent without Nomad. Times are those that the training
// processes themselves recorded: the gap is from the last step of the old ring
// to the first step of the new one, lateness from the change of the host list
// (or the kill) to that first step.
package main
