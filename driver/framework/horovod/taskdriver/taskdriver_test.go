// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskdriver

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/probe"
)

func TestDescribe(t *testing.T) {
	full := probe.Installation{
		Installed: true, Version: "0.28.1", Gloo: new(true), NCCL: new(false), MPI: new(false),
		Frameworks: map[string]string{"pytorch": "1.13.1"}, Python: "/usr/bin/python3", PythonVersion: "3.11.2",
	}
	noGloo, broken := full, full
	noGloo.Gloo = new(false)
	broken.Gloo, broken.NCCL, broken.MPI, broken.Frameworks, broken.Why = nil, nil, nil, nil, "horovod.torch cannot be imported: no"
	cases := map[string]struct {
		found      probe.Installation
		attributes map[string]any
		remark     string
		err        string
	}{
		"without Gloo": {noGloo, nil, "", "Horovod 0.28.1 of /usr/bin/python3 was built without Gloo, which elastic training needs; rebuild it with HOROVOD_WITH_GLOO=1"},
		"none": {
			probe.Installation{Why: "no python3"}, map[string]any{"installed": false},
			"no Horovod on this host (no python3), tasks must bring their own", "",
		},
		"one that cannot be asked": {
			broken, map[string]any{"installed": true, "version": "0.28.1", "python": "3.11.2"}, "horovod.torch cannot be imported: no", "",
		},
		"all there": {full, map[string]any{
			"installed": true, "version": "0.28.1", "python": "3.11.2", "gloo": true, "nccl": false, "mpi": false, "pytorch": "1.13.1",
		}, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			attributes, remark, err := describe(&c.found)
			must.Eq(t, c.attributes, attributes)
			must.Eq(t, c.remark, remark)
			if c.err != "" {
				must.EqError(t, err, c.err)
			} else {
				must.NoError(t, err)
			}
		})
	}
}
