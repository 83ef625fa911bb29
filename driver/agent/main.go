// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/process"
)

// Main is the `agent` subcommand: it runs the allocation's part of the job, with
// one of the frameworks, and returns the task's exit code.
func Main(ctx context.Context, frameworks map[string]framework.Framework) int {
	process.IgnoreSIGPIPE()
	log := hclog.New(&hclog.LoggerOptions{Name: "kolo", Output: os.Stderr, Level: hclog.LevelFromString(os.Getenv("KOLO_LOG_LEVEL"))})
	c, err := config.Read(os.Getenv(config.Variable))
	if err != nil {
		log.Error("the agent can't start", "error", err)
		return 1
	}
	picked, ok := frameworks[c.Framework]
	if !ok {
		log.Error("the agent can't start: it does not know the training framework", "framework", c.Framework)
		return 1
	}
	ev, err := events.Open(c.EventFile, log)
	if err != nil {
		log.Error("the agent can't start", "error", err)
		return 1
	}
	defer ev.Close()
	a := &agent{config: c, framework: picked, log: log, events: ev}
	result, err := a.run(ctx)
	if err != nil {
		ev.Emit(fmt.Sprintf("the agent gives up: %v", err))
		return 1
	}
	log.Info("agent ends", "code", result.Code, "reason", result.Reason)
	if result.Code != 0 {
		ev.Emit(result.Reason)
	}
	return result.Code
}
