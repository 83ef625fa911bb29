// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// TestProbeScript runs the real script under a real Python, if there is one, against
// a stand-in for PyTorch.
func TestProbeScript(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("no " + python)
	}
	module := func(dir, name, text string) {
		path := filepath.Join(dir, name)
		must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	built := func(distributed string) string {
		dir := t.TempDir()
		module(dir, "torch/__init__.py", "__version__ = '2.6.0'\nfrom . import version\nprint('noise')")
		module(dir, "torch/version.py", "cuda = '12.4'")
		module(dir, "torch/distributed/__init__.py", distributed)
		return dir
	}
	const distributed = "is_available = lambda: True\nis_gloo_available = lambda: True\nis_nccl_available = is_mpi_available = lambda: False\n"
	whole := built(distributed)
	module(whole, "kolo/__init__.py", "__version__ = '0.1.0'")
	module(whole, "kolo/torch/__init__.py", "raise SystemExit")
	other := built(distributed)
	module(other, "kolo.py", "")
	broken := t.TempDir()
	module(broken, "torch/__init__.py", "raise OSError('libtorch.so: no such file\\nmore')")

	cases := map[string]struct {
		path string
		want Installation
	}{
		"with kolo":    {whole, Installation{Installed: true, Version: "2.6.0", CUDA: "12.4", Gloo: new(true), NCCL: new(false), MPI: new(false), Kolo: "0.1.0"}},
		"another kolo": {other, Installation{Installed: true, Version: "2.6.0", CUDA: "12.4", Gloo: new(true), NCCL: new(false), MPI: new(false)}},
		"without distributed": {built("is_available = lambda: False"),
			Installation{Installed: true, Version: "2.6.0", CUDA: "12.4", Gloo: new(false), NCCL: new(false), MPI: new(false)}},
		"broken distributed": {built("raise ImportError('no')"),
			Installation{Installed: true, Version: "2.6.0", CUDA: "12.4", Why: "torch.distributed cannot be asked: no"}},
		"broken": {broken, Installation{Why: "torch cannot be imported: libtorch.so: no such file"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wrapper := filepath.Join(t.TempDir(), "python")
			must.NoError(t, os.WriteFile(wrapper, []byte("#!/bin/sh\nexec env PYTHONPATH="+c.path+" "+python+` -B -c "$4"`), 0o755))
			found := Look(t.Context(), wrapper, time.Minute, hclog.NewNullLogger())
			must.Eq(t, python, found.Python, must.Sprintf("%+v", found))
			found.Python, found.PythonVersion = "", ""
			must.Eq(t, c.want, *found)
		})
	}
}

func TestProbeOfNoPython(t *testing.T) {
	found := Look(t.Context(), "no-python-here", time.Minute, hclog.NewNullLogger())
	must.False(t, found.Installed)
	must.StrContains(t, found.Why, `python = "no-python-here"`)
}
