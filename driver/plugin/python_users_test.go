// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// TestPythonUsers has a Python installed for root, as by pyenv, conda and uv, and a
// virtual environment of it.
func TestPythonUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := openTempDir(t)
	at := func(path string) string { return filepath.Join(dir, path) }
	for _, path := range []string{"root/pyenv/bin", "usr/bin", "opt/venv/bin"} {
		must.NoError(t, os.MkdirAll(at(path), 0o755))
	}
	for _, path := range []string{"root/pyenv/bin/python3", "usr/bin/python3", "usr/bin/mine"} {
		must.NoError(t, os.WriteFile(at(path), []byte("#!/bin/sh\n"), 0o755))
	}
	must.NoError(t, os.Symlink(at("root/pyenv/bin/python3"), at("opt/venv/bin/python")))
	must.NoError(t, os.Chmod(at("usr/bin/mine"), 0o700))
	must.NoError(t, os.Chmod(at("root"), 0o700))

	for name, c := range map[string]struct {
		python string
		binds  []string
		want   any
	}{
		"in /usr":                         {"usr/bin/python3", nil, "anyone"},
		"it, bound":                       {"usr/bin/python3", []string{"usr"}, "anyone"},
		"in root's home":                  {"root/pyenv/bin/python3", nil, "owner only: " + at("root")},
		"it, bound with the home":         {"root/pyenv/bin/python3", []string{"root"}, "owner only: " + at("root")},
		"it, bound without the home":      {"root/pyenv/bin/python3", []string{"root/pyenv"}, "anyone"},
		"its environment":                 {"opt/venv/bin/python", nil, "owner only: " + at("root")},
		"its environment, bound alone":    {"opt/venv/bin/python", []string{"opt/venv"}, "owner only: " + at("root")},
		"its environment, bound with it":  {"opt/venv/bin/python", []string{"opt/venv", "root/pyenv"}, "anyone"},
		"a program that is closed itself": {"usr/bin/mine", nil, "owner only: " + at("usr/bin/mine")},
		"one that does not exist":         {"usr/bin/python4", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{Python: at(c.python)}
			for _, path := range c.binds {
				config.BindPaths = append(config.BindPaths, at(path))
			}
			found := installation{attributes: map[string]any{"installed": true}, remark: "no gloo"}
			found.addPythonUsers(&config)
			must.Eq(t, c.want, found.attributes["python_users"])
			if c.want == nil || c.want == anyone {
				must.Eq(t, "no gloo", found.remark)
			} else {
				must.StrContains(t, found.remark, "no gloo; only the owner of "+at(c.python)+" can run it, as ")
			}
		})
	}
	none := installation{attributes: map[string]any{"installed": false}}
	none.addPythonUsers(&Config{Python: at("usr/bin/python3")})
	must.MapNotContainsKey(t, none.attributes, "python_users")
}

// The client reports a Python that only root can run. A task of another user is
// refused, with the directory that it cannot enter.
func TestPythonOfRoot(t *testing.T) {
	isolated(t)
	home := openTempDir(t)
	must.NoError(t, os.Chmod(home, 0o700))
	python := filepath.Join(home, "python3")
	must.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\n"+`echo '{"installed":true,"version":"1","gloo":true}'`), 0o755))
	h := newHarness(t, &Config{Enabled: true, AllowIsolationNone: true, Python: python})
	ch, err := h.Fingerprint(t.Context())
	must.NoError(t, err)
	fp := <-ch
	must.Eq(t, "owner only: "+home, attributeText(fp.Attributes["driver.horovod.python_users"]), must.Sprint(fp.HealthDescription))
	must.StrContains(t, fp.HealthDescription, "closed to other users")

	for isolation, bind := range map[string]string{isolationNone: "", isolationExec: home} {
		config := noIsolation()
		if bind != "" {
			config.BindPaths = []string{"/bin", "/lib", "/lib64", "/usr", bind}
		}
		h := newHarness(t, config)
		c := newTaskConfig(t, isolation, "")
		c.User = "nobody"
		must.NoError(t, c.EncodeConcreteDriverConfig(map[string]any{"command": python, "isolation": isolation, "service": "ring"}))
		_, _, err := h.StartTask(c)
		must.ErrorContains(t, err, `the task's user "nobody" cannot run it (enter `+home+": permission denied); let that user into "+home)
	}
}
