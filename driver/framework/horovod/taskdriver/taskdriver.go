// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package taskdriver contains Horovod's part of the Nomad task driver: it adds Horovod's
// settings to a task's configuration, and detects which Horovod a client has installed.
package taskdriver

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/options"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/probe"
)

// Horovod implements the task driver's framework.
type Horovod struct {
	options.Task

	Logger hclog.Logger
}

// Probe returns node attributes for the Horovod that is installed for a Python interpreter
// on this client. Function describe lists them.
func (h Horovod) Probe(ctx context.Context, python string, timeout time.Duration) (attributes map[string]any, remark string, err error) {
	return describe(probe.Look(ctx, python, timeout, h.Logger))
}

// describe returns node attributes and a remark on the installation. An error states why no
// task can use it.
func describe(found *probe.Installation) (attributes map[string]any, remark string, err error) {
	if !found.Installed {
		return map[string]any{"installed": false}, "no Horovod on this host (" + found.Why + "), tasks must bring their own", nil
	}
	if found.Gloo != nil && !*found.Gloo {
		return nil, "", fmt.Errorf("Horovod %s of %s was built without Gloo, which elastic training needs; rebuild it with HOROVOD_WITH_GLOO=1", found.Version, found.Python)
	}
	attributes = map[string]any{"installed": true, "version": found.Version, "python": found.PythonVersion}
	for name, built := range map[string]*bool{"gloo": found.Gloo, "nccl": found.NCCL, "mpi": found.MPI} {
		if built != nil {
			attributes[name] = *built
		}
	}
	for framework, version := range found.Frameworks {
		attributes[framework] = version
	}
	return attributes, found.Why, nil
}
