// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package probe finds out which Horovod is installed for a Python interpreter.
package probe

import (
	"context"
	_ "embed"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/framework/python"
)

//go:embed probe.py
var script string

// Installation describes the Horovod that is installed for a Python interpreter, as that
// Python reports it.
type Installation struct {
	Installed bool `json:"installed"`
	// Why states why Horovod was not found or could not be asked.
	Why     string `json:"why"`
	Version string `json:"version"`
	// Gloo, NCCL and MPI are nil if Horovod could not be asked.
	Gloo *bool `json:"gloo"`
	NCCL *bool `json:"nccl"`
	MPI  *bool `json:"mpi"`
	// Frameworks holds versions by name: pytorch, tensorflow, mxnet.
	Frameworks map[string]string `json:"frameworks"`

	Python        string `json:"python"`
	PythonVersion string `json:"python_version"`
}

// Look returns which Horovod is installed for a Python interpreter. If that cannot be found
// out within timeout, the result's Why states the reason.
func Look(ctx context.Context, program string, timeout time.Duration, logger hclog.Logger) *Installation {
	started := time.Now()
	var found Installation
	if err := python.Ask(ctx, program, script, timeout, &found); err != nil {
		logger.Info("no Horovod found on this host", "python", program, "reason", err)
		return &Installation{Why: err.Error()}
	}
	logger.Debug("looked for Horovod", "python", found.Python, "installed", found.Installed, "version", found.Version,
		"why", found.Why, "took", time.Since(started).Round(time.Millisecond).String())
	return &found
}
