// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kolo-nomad/kolo/driver/agent"
)

// runAgent is the `agent` subcommand.
func runAgent(context.Context, []string) int {
	fmt.Fprintln(os.Stderr, "nomad-driver-horovod: the agent is not part of this build yet")
	return 70
}

// runLocal is the `run` subcommand.
func runLocal(ctx context.Context, args []string) int { return agent.RunMain(ctx, args) }
