// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"

	"github.com/kolo-nomad/kolo/driver/agent"
)

// runAgent is the `agent` subcommand.
func runAgent(ctx context.Context, args []string) int { return agent.Main(ctx, args) }

// runLocal is the `run` subcommand.
func runLocal(ctx context.Context, args []string) int { return agent.RunMain(ctx, args) }
