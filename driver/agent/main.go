// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/process"
)

// Main runs the `agent` subcommand, which is the allocation's part of the job. frameworks
// are the training frameworks that the program supports, by name. It returns the task's
// exit code.
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
	return Run(ctx, Options{Config: c, Framework: picked, Signals: Signals(), Stop: Stop, Events: ev, Logger: log}).Code
}

// Options configure an agent.
type Options struct {
	Config    config.Config
	Framework framework.Framework
	// Signals receives the signals of the process, see the function Signals. Signals in
	// Stop make the agent leave; it passes all others on to its slots.
	Signals <-chan os.Signal
	Stop    []syscall.Signal
	Events  *events.Log
	Logger  hclog.Logger
}

// Run runs the allocation's part of the job, and returns how it ended. The result's Code
// is the task's exit code under the task driver, for which a stopped task is a success.
func Run(ctx context.Context, o Options) host.Result {
	a := &agent{config: o.Config, framework: o.Framework, log: o.Logger, events: o.Events, stop: o.Stop}
	result, err := a.run(ctx, o.Signals)
	if err != nil {
		a.events.Emit(fmt.Sprintf("the agent gives up: %v", err))
		return host.Result{Code: 1, Reason: err.Error()}
	}
	a.log.Info("agent ends", "code", result.Code, "reason", result.Reason)
	if result.Code != 0 {
		a.events.Emit(result.Reason)
	}
	return result
}
