// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import "context"

// restartRoute grows and shrinks between two sizes.
var restartRoute = []int{2, 4, 2, 4, 2}

// restartArgs turn the training script into a script for torchrun, with a
// checkpoint of about 1 MB.
var restartArgs = []string{"--frozen=1"}

// measureRestart measures changes of a torchrun script, whose processes are
// replaced, under torchrun and under Kolo.
func measureRestart(ctx context.Context, o *options, changes **Changes) error {
	return measureResizes(ctx, o, []launcher{torchrun, koloRestart}, changes, walk{route: restartRoute, args: restartArgs})
}
