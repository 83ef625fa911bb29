// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// patience is how long tests wait for what should take no time.
const patience = time.Minute

func look(t *testing.T, python string, timeout time.Duration) *Installation {
	return Look(t.Context(), python, timeout, hclog.NewNullLogger())
}

// TestProbeImportsNothingOfOthers puts modules where Python finds them by default:
// in the working directory and in PYTHONPATH.
func TestProbeImportsNothingOfOthers(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	dir := openTempDir(t)
	marker := filepath.Join(dir, "imported")
	must.NoError(t, os.WriteFile(filepath.Join(dir, "json.py"), []byte("open("+`"`+marker+`", "w")`+"\nraise SystemExit\n"), 0o644))
	t.Run("working directory", func(t *testing.T) {
		t.Chdir(dir)
		must.NotEq(t, "", look(t, python, patience).PythonVersion)
	})
	t.Run("PYTHONPATH", func(t *testing.T) {
		t.Setenv("PYTHONPATH", dir)
		must.NotEq(t, "", look(t, python, patience).PythonVersion)
	})
	must.FileNotExists(t, marker)
}

// openTempDir returns a directory that every user may write to.
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
	program := filepath.Join(openTempDir(t), "python")
	must.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	must.Eq(t, "65534 65534 ", look(t, program, patience).Version)

	// The link of a virtual environment that only its owner may look into.
	home := filepath.Join(filepath.Dir(program), "home")
	must.NoError(t, os.Mkdir(home, 0o700))
	must.NoError(t, os.Chown(home, 1234, 1235))
	must.NoError(t, os.Symlink(program, filepath.Join(home, "python")))
	must.NoError(t, os.Lchown(filepath.Join(home, "python"), 1234, 1235))
	must.Eq(t, "1234 1235 ", look(t, filepath.Join(home, "python"), patience).Version)
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
	found := look(t, filepath.Join(venv, "bin/python"), patience)
	must.True(t, found.Installed, must.Sprint(found.Why))
	must.Eq(t, "1.2.3", found.Version)
}

// pretendPython writes a program that answers as Python would.
func pretendPython(t *testing.T, script string) string {
	path := filepath.Join(t.TempDir(), "python")
	must.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return path
}

func TestProbe(t *testing.T) {
	t.Run("chatty", func(t *testing.T) {
		found := look(t, pretendPython(t, `echo loading...; echo '{"installed":true,"version":"0.28.1","gloo":true}'`), patience)
		must.Eq(t, &Installation{Installed: true, Version: "0.28.1", Gloo: new(true)}, found)
	})
	t.Run("missing", func(t *testing.T) {
		found := look(t, "no-python-here", patience)
		must.False(t, found.Installed)
		must.StrContains(t, found.Why, `python = "no-python-here"`)
	})
	t.Run("crashing", func(t *testing.T) {
		found := look(t, pretendPython(t, `echo a >&2; echo 'Illegal instruction' >&2; exit 132`), patience)
		must.StrContains(t, found.Why, "exit status 132: Illegal instruction")
	})
	t.Run("speechless", func(t *testing.T) {
		must.StrContains(t, look(t, pretendPython(t, `true`), patience).Why, "gave no answer")
	})
	t.Run("hanging with children", func(t *testing.T) {
		found := look(t, pretendPython(t, `sleep 1000 & sleep 1000`), 100*time.Millisecond)
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

	cases := map[string]struct {
		path string
		want func(*Installation)
	}{
		"gloo": {built("1"), func(h *Installation) {
			must.True(t, *h.Gloo)
			must.False(t, *h.MPI)
			must.Eq(t, "1.13.1", h.Frameworks["pytorch"])
		}},
		"no gloo": {built("0"), func(h *Installation) { must.False(t, *h.Gloo) }},
		"broken": {broken, func(h *Installation) {
			must.True(t, h.Installed)
			must.Nil(t, h.Gloo)
			must.Eq(t, "horovod.torch cannot be imported: libtorch.so: no such file", h.Why)
		}},
		"worse": {worse, func(h *Installation) {
			must.False(t, h.Installed)
			must.Eq(t, "horovod cannot be imported: not today", h.Why)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wrapper := pretendPython(t, "exec env PYTHONPATH="+c.path+" "+python+` -B -c "$4"`)
			found := look(t, wrapper, patience)
			must.Eq(t, python, found.Python, must.Sprintf("%+v", found))
			c.want(found)
		})
	}
}
