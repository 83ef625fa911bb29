// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"
)

func TestDescribe(t *testing.T) {
	full := &horovod{
		Installed: true, Version: "0.28.1", Gloo: new(true), NCCL: new(false), MPI: new(false),
		Frameworks: map[string]string{"pytorch": "1.13.1"}, Python: "/usr/bin/python3", PythonVersion: "3.11.2",
	}
	noGloo := *full
	noGloo.Gloo = new(false)
	broken := *full
	broken.Gloo, broken.NCCL, broken.MPI, broken.Frameworks, broken.Why = nil, nil, nil, nil, "horovod.torch cannot be imported: no"
	always := map[string]string{
		"driver.horovod": "true", "driver.horovod.plugin_version": Version,
		"driver.horovod.isolation_exec": "true", "driver.horovod.isolation_none": "false",
	}
	cases := map[string]struct {
		config Config
		noExec error
		found  *horovod
		health drivers.HealthState
		desc   string
		attrs  map[string]string
	}{
		"disabled":     {Config{}, nil, full, drivers.HealthStateUndetected, "disabled in the plugin's config", nil},
		"no isolation": {Config{Enabled: true}, errors.New("no root"), full, drivers.HealthStateUndetected, `isolation "exec" is not possible (no root) and allow_isolation_none is not set`, nil},
		"no isolation, allowed": {
			Config{Enabled: true, AllowIsolationNone: true}, errors.New("no root"), nil, drivers.HealthStateHealthy, "Healthy; still looking for Horovod on this host",
			map[string]string{"driver.horovod.isolation_exec": "false", "driver.horovod.isolation_none": "true"},
		},
		"Horovod without Gloo": {
			Config{Enabled: true}, nil, &noGloo, drivers.HealthStateUndetected,
			"Horovod 0.28.1 of /usr/bin/python3 was built without Gloo, which elastic training needs; rebuild it with HOROVOD_WITH_GLOO=1", nil,
		},
		"no Horovod on the host": {
			Config{Enabled: true}, nil, &horovod{Why: "no python3"}, drivers.HealthStateHealthy,
			"Healthy; no Horovod on this host (no python3), tasks must bring their own", map[string]string{"driver.horovod.installed": "false"},
		},
		"Horovod that cannot be asked": {
			Config{Enabled: true}, nil, &broken, drivers.HealthStateHealthy, "Healthy; horovod.torch cannot be imported: no",
			map[string]string{"driver.horovod.installed": "true", "driver.horovod.version": "0.28.1", "driver.horovod.python": "3.11.2"},
		},
		"all there": {
			Config{Enabled: true}, nil, full, drivers.HealthStateHealthy, "Healthy",
			map[string]string{
				"driver.horovod.installed": "true", "driver.horovod.version": "0.28.1", "driver.horovod.python": "3.11.2",
				"driver.horovod.gloo": "true", "driver.horovod.nccl": "false", "driver.horovod.mpi": "false", "driver.horovod.pytorch": "1.13.1",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fp := describe(&c.config, c.noExec, c.found)
			must.Eq(t, c.health, fp.Health)
			must.Eq(t, c.desc, fp.HealthDescription)
			got, want := map[string]string{}, map[string]string{}
			for k, v := range fp.Attributes {
				got[k] = attributeText(v)
			}
			if c.attrs != nil {
				for k, v := range always {
					want[k] = v
				}
				for k, v := range c.attrs {
					want[k] = v
				}
			}
			must.Eq(t, want, got)
		})
	}
}

func attributeText(a *pstructs.Attribute) string {
	if b, is := a.GetBool(); is {
		return strconv.FormatBool(b)
	}
	s, _ := a.GetString()
	return s
}

// pretendPython writes a program that answers as Python would.
func pretendPython(t *testing.T, script string) string {
	path := filepath.Join(t.TempDir(), "python")
	must.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return path
}

func TestProbe(t *testing.T) {
	p := &prober{logger: hclog.NewNullLogger()}
	t.Run("chatty", func(t *testing.T) {
		found := p.look(t.Context(), pretendPython(t, `echo loading...; echo '{"installed":true,"version":"0.28.1","gloo":true}'`), patience)
		must.Eq(t, &horovod{Installed: true, Version: "0.28.1", Gloo: new(true)}, found)
	})
	t.Run("missing", func(t *testing.T) {
		found := p.look(t.Context(), "no-python-here", patience)
		must.False(t, found.Installed)
		must.StrContains(t, found.Why, `python = "no-python-here"`)
	})
	t.Run("crashing", func(t *testing.T) {
		found := p.look(t.Context(), pretendPython(t, `echo a >&2; echo 'Illegal instruction' >&2; exit 132`), patience)
		must.StrContains(t, found.Why, "exit status 132: Illegal instruction")
	})
	t.Run("speechless", func(t *testing.T) {
		must.StrContains(t, p.look(t.Context(), pretendPython(t, `true`), patience).Why, "gave no answer")
	})
	t.Run("hanging with children", func(t *testing.T) {
		found := p.look(t.Context(), pretendPython(t, `sleep 1000 & sleep 1000`), 100*time.Millisecond)
		must.StrContains(t, found.Why, "did not answer within 100ms")
	})
}

// TestProbeScript runs the real script under a real Python, if there is one,
// against a stand-in for Horovod.
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
	built := func(gloo string) string {
		dir := t.TempDir()
		module(dir, "horovod/__init__.py", "__version__ = '0.28.1'")
		module(dir, "horovod/torch/__init__.py", "gloo_built = lambda: "+gloo+"\nnccl_built = lambda: 0\nmpi_built = lambda: False\nprint('noise')")
		module(dir, "horovod/torch/mpi_lib_v2.cpython-311.so", "")
		module(dir, "torch/__init__.py", "__version__ = '1.13.1'")
		return dir
	}
	broken := t.TempDir()
	module(broken, "horovod/__init__.py", "__version__ = '0.28.1'")
	module(broken, "horovod/torch/__init__.py", "raise ImportError('libtorch.so: no such file\\nmore')")
	module(broken, "horovod/torch/mpi_lib_v2.so", "")
	worse := t.TempDir()
	module(worse, "horovod/__init__.py", "raise RuntimeError('not today')")

	p := &prober{logger: hclog.NewNullLogger()}
	cases := map[string]struct {
		path string
		want func(*horovod)
	}{
		"gloo": {built("1"), func(h *horovod) {
			must.True(t, *h.Gloo)
			must.False(t, *h.MPI)
			must.Eq(t, "1.13.1", h.Frameworks["pytorch"])
		}},
		"no gloo": {built("0"), func(h *horovod) { must.False(t, *h.Gloo) }},
		"broken": {broken, func(h *horovod) {
			must.True(t, h.Installed)
			must.Nil(t, h.Gloo)
			must.Eq(t, "horovod.torch cannot be imported: libtorch.so: no such file", h.Why)
		}},
		"worse": {worse, func(h *horovod) {
			must.False(t, h.Installed)
			must.Eq(t, "horovod cannot be imported: not today", h.Why)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wrapper := pretendPython(t, "exec env PYTHONPATH="+c.path+" "+python+` -B -c "$4"`)
			found := p.look(t.Context(), wrapper, patience)
			must.Eq(t, python, found.Python, must.Sprintf("%+v", found))
			c.want(found)
		})
	}
}

func TestFingerprintTellsChangesOnly(t *testing.T) {
	answer := filepath.Join(t.TempDir(), "answer")
	must.NoError(t, os.WriteFile(answer, []byte(`{"installed":true,"version":"1","gloo":true}`), 0o644))
	h := newHarness(t, &Config{Enabled: true, AllowIsolationNone: true, Python: pretendPython(t, "cat "+answer+"; echo >> "+answer+".asked")})
	h.driver.mu.Lock()
	h.driver.config.period = 10 * time.Millisecond
	h.driver.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := h.driver.Fingerprint(ctx)
	must.NoError(t, err)
	next := func() *drivers.Fingerprint {
		select {
		case fp := <-ch:
			must.NotNil(t, fp)
			return fp
		case <-time.After(patience):
			t.Fatal("no fingerprint")
			return nil
		}
	}
	version := func(fp *drivers.Fingerprint) string { return attributeText(fp.Attributes["driver.horovod.version"]) }
	must.Eq(t, "1", version(next()))
	eventually(t, "it is asked again", func() bool {
		data, _ := os.ReadFile(answer + ".asked")
		return len(data) > 3
	})
	must.NoError(t, os.WriteFile(answer+".new", []byte(`{"installed":true,"version":"2","gloo":true}`), 0o644))
	must.NoError(t, os.Rename(answer+".new", answer))
	must.Eq(t, "2", version(next()), must.Sprint("nothing is told in between"))
	cancel()
	eventually(t, "the stream ends", func() bool {
		select {
		case _, open := <-ch:
			return !open
		default:
			return false
		}
	})
}

func TestFingerprintOfADisabledDriver(t *testing.T) {
	h := newHarness(t, &Config{Enabled: false})
	ch, err := h.Fingerprint(t.Context())
	must.NoError(t, err)
	select {
	case fp := <-ch:
		must.Eq(t, drivers.HealthStateUndetected, fp.Health)
	case <-time.After(patience):
		t.Fatal("no fingerprint")
	}
}
