// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"os"
)

// runAgent is the `agent` subcommand.
func runAgent(context.Context, []string) int {
	fmt.Fprintln(os.Stderr, "nomad-driver-horovod: the agent is not part of this build yet")
	return 70
}

// runLocal is the `run` subcommand.
func runLocal(context.Context, []string) int {
	fmt.Fprintln(os.Stderr, "nomad-driver-horovod: the local launcher is not part of this build yet")
	return 70
}
