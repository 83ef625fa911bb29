// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// TestProbeImportsNothingOfOthers has modules where Python looks for them unless
// it is told not to: in the working directory and in PYTHONPATH.
func TestProbeImportsNothingOfOthers(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	dir := openTempDir(t)
	marker := filepath.Join(dir, "imported")
	must.NoError(t, os.WriteFile(filepath.Join(dir, "json.py"), []byte("open("+`"`+marker+`", "w")`+"\nraise SystemExit\n"), 0o644))
	p := &prober{logger: hclog.NewNullLogger()}
	t.Run("working directory", func(t *testing.T) {
		t.Chdir(dir)
		must.NotEq(t, "", p.look(t.Context(), python, patience).PythonVersion)
	})
	t.Run("PYTHONPATH", func(t *testing.T) {
		t.Setenv("PYTHONPATH", dir)
		must.NotEq(t, "", p.look(t.Context(), python, patience).PythonVersion)
	})
	must.FileNotExists(t, marker)
}

// openTempDir is a directory that every user may write to.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		must.NoError(t, os.Chmod(p, 0o755))
	}
	must.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

func TestProbeHasNoRightsOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const script = "#!/bin/sh\n" + `echo "{\"installed\":true,\"version\":\"$(id -u) $(id -g) $NOMAD_TOKEN\"}"`
	t.Setenv("NOMAD_TOKEN", "precious")
	p := &prober{logger: hclog.NewNullLogger()}
	program := filepath.Join(openTempDir(t), "python")
	must.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	must.Eq(t, "65534 65534 ", p.look(t.Context(), program, patience).Version)

	// The link of a virtual environment that only its owner may look into.
	home := filepath.Join(filepath.Dir(program), "home")
	must.NoError(t, os.Mkdir(home, 0o700))
	must.NoError(t, os.Chown(home, 1234, 1235))
	must.NoError(t, os.Symlink(program, filepath.Join(home, "python")))
	must.NoError(t, os.Lchown(filepath.Join(home, "python"), 1234, 1235))
	must.Eq(t, "1234 1235 ", p.look(t.Context(), filepath.Join(home, "python"), patience).Version)
}

func TestProbeOfAVirtualEnvironment(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	dir := openTempDir(t)
	venv := filepath.Join(dir, "venv")
	if out, err := exec.CommandContext(t.Context(), python, "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("no virtual environments here: %s", out)
	}
	packages, err := filepath.Glob(venv + "/lib/python3*/site-packages")
	must.NoError(t, err)
	must.Len(t, 1, packages)
	must.NoError(t, os.Mkdir(filepath.Join(packages[0], "horovod"), 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(packages[0], "horovod/__init__.py"), []byte(`__version__ = "1.2.3"`), 0o644))
	found := (&prober{logger: hclog.NewNullLogger()}).look(t.Context(), filepath.Join(venv, "bin/python"), patience)
	must.True(t, found.Installed, must.Sprint(found.Why))
	must.Eq(t, "1.2.3", found.Version)
}
