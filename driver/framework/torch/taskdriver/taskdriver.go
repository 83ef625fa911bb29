// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package taskdriver contains PyTorch's part of the Nomad task driver: it adds PyTorch's
// settings to a task's configuration, and detects which PyTorch a client has installed.
package taskdriver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/framework/torch/options"
	"github.com/kolo-nomad/kolo/driver/framework/torch/probe"
	"github.com/kolo-nomad/kolo/driver/framework/torch/release"
)

// PyTorch implements the task driver's framework.
type PyTorch struct {
	options.Task

	Logger hclog.Logger
}

// Probe returns node attributes for the PyTorch that is installed for a Python interpreter
// on this host. Function describe lists them.
func (p PyTorch) Probe(ctx context.Context, python string, timeout time.Duration) (attributes map[string]any, remark string, err error) {
	attributes, remark = describe(probe.Look(ctx, python, timeout, p.Logger))
	return attributes, remark, nil
}

// describe returns node attributes and a remark on the installation. None of them prevents
// tasks from bringing their own.
func describe(found *probe.Installation) (attributes map[string]any, remark string) {
	if !found.Installed {
		return map[string]any{"installed": false}, "no PyTorch on this host (" + found.Why + "), tasks must bring their own"
	}
	attributes = map[string]any{"installed": true, "version": found.Version, "python": found.PythonVersion}
	for name, text := range map[string]string{"cuda": found.CUDA, "kolo": found.Kolo} {
		if text != "" {
			attributes[name] = text
		}
	}
	for name, built := range map[string]*bool{"gloo": found.Gloo, "nccl": found.NCCL, "mpi": found.MPI} {
		if built != nil {
			attributes[name] = *built
		}
	}
	var remarks []string
	if found.Why != "" {
		remarks = append(remarks, found.Why)
	}
	if err := release.Check(found.Version); err != nil {
		remarks = append(remarks, err.Error()+", tasks must bring their own")
	}
	if found.Gloo != nil && !*found.Gloo {
		remarks = append(remarks, fmt.Sprintf("PyTorch %s of %s was built without gloo, which kolo.torch needs", found.Version, found.Python))
	}
	if found.Why == "" && found.Kolo == "" {
		remarks = append(remarks, found.Python+" has no kolo.torch (the Python package of Kolo), tasks must bring it")
	}
	return attributes, strings.Join(remarks, "; ")
}
