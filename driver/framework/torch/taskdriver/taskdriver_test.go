// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskdriver

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/torch/probe"
)

func TestDescribe(t *testing.T) {
	full := probe.Installation{
		Installed: true, Version: "2.6.0", CUDA: "12.4", Gloo: new(true), NCCL: new(true), MPI: new(false),
		Kolo: "0.1.0", Python: "/usr/bin/python3", PythonVersion: "3.13.5",
	}
	bare, old, noGloo, broken := full, full, full, full
	bare.Kolo, bare.CUDA, bare.NCCL = "", "", new(false)
	old.Version = "1.13.1"
	noGloo.Gloo = new(false)
	broken.Gloo, broken.NCCL, broken.MPI, broken.Kolo, broken.CUDA, broken.Why = nil, nil, nil, "", "", "torch.distributed cannot be asked: no"
	attributes := func(version string, gloo bool) map[string]any {
		return map[string]any{"installed": true, "version": version, "python": "3.13.5", "cuda": "12.4", "kolo": "0.1.0",
			"gloo": gloo, "nccl": true, "mpi": false}
	}
	cases := map[string]struct {
		found      probe.Installation
		attributes map[string]any
		remark     string
	}{
		"all there": {full, attributes("2.6.0", true), ""},
		"none":      {probe.Installation{Why: "no python3"}, map[string]any{"installed": false}, "no PyTorch on this host (no python3), tasks must bring their own"},
		"without kolo": {
			bare, map[string]any{"installed": true, "version": "2.6.0", "python": "3.13.5", "gloo": true, "nccl": false, "mpi": false},
			"/usr/bin/python3 has no kolo.torch (the Python package of Kolo), tasks must bring it",
		},
		"too old":      {old, attributes("1.13.1", true), "PyTorch 1.13.1 is too old: kolo.torch needs 2.1, tasks must bring their own"},
		"without gloo": {noGloo, attributes("2.6.0", false), "PyTorch 2.6.0 of /usr/bin/python3 was built without gloo, which kolo.torch needs"},
		"one that cannot be asked": {
			broken, map[string]any{"installed": true, "version": "2.6.0", "python": "3.13.5"}, "torch.distributed cannot be asked: no",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			attributes, remark := describe(&c.found)
			must.Eq(t, c.attributes, attributes)
			must.Eq(t, c.remark, remark)
		})
	}
}
