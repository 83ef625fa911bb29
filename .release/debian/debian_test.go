// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build packages

package debian

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

var suites = map[string]string{"Debian 12": "bookworm", "Debian 13": "trixie"}

// releases are the packages of bin/release by their names, for this architecture.
func releases(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../bin/release/*_linux_" + runtime.GOARCH + ".deb")
	must.NoError(t, err)
	debs := map[string]string{}
	for _, f := range files {
		name, _, _ := strings.Cut(filepath.Base(f), "_")
		debs[name], err = filepath.Abs(f)
		must.NoError(t, err)
	}
	must.MapLen(t, 4, debs, must.Sprint("bin/release has no packages: make release"))
	return debs
}

// machine is a copy of a root file system that the test changes.
type machine struct {
	t   *testing.T
	dir string
}

func newMachine(t *testing.T, suite string) *machine {
	t.Helper()
	from := "../../bin/debian/" + suite
	_, err := os.Stat(from)
	must.NoError(t, err, must.Sprint("make e2e-packages makes it"))
	m := &machine{t, filepath.Join(t.TempDir(), "root")}
	run(t, exec.CommandContext(t.Context(), "cp", "--archive", "--reflink=auto", from, m.dir))
	return m
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s\n%s", cmd, out))
	return string(out)
}

// command is one that runs in the machine, as root.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.t.Context(), "chroot", append([]string{m.dir}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	return cmd
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	return run(m.t, m.command(args...))
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) read(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(m.path(name))
	must.NoError(m.t, err)
	return string(text)
}

func (m *machine) append(name, text string) {
	m.t.Helper()
	f, err := os.OpenFile(m.path(name), os.O_APPEND|os.O_WRONLY, 0)
	must.NoError(m.t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	must.NoError(m.t, err)
}

// install installs package files in one run of dpkg.
func (m *machine) install(debs ...string) {
	m.t.Helper()
	args := []string{"dpkg", "--install"}
	for _, deb := range debs {
		body, err := os.ReadFile(deb)
		must.NoError(m.t, err)
		name := "/tmp/" + filepath.Base(deb)
		must.NoError(m.t, os.WriteFile(m.path(name), body, 0o644))
		defer os.Remove(m.path(name))
		args = append(args, name)
	}
	m.t.Log(m.run(args...))
}

// ofDpkg are files that dpkg and the tools for users write on their own account.
var ofDpkg = regexp.MustCompile(`^(var/lib/dpkg|var/log|var/cache|tmp|run)(/|$)|^etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|^etc/\.pwd\.lock$`)

// files are the files of the machine, with their modes, owners and, for those that are
// small, contents.
func (m *machine) files() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	must.NoError(m.t, filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(m.dir, path)
		if err != nil || ofDpkg.MatchString(name) {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[name] = info.Mode().String()
		if info.Mode().IsRegular() && strings.HasPrefix(name, "etc/") {
			text, err := os.ReadFile(path)
			all[name] += "\n" + string(text)
			return err
		}
		return nil
	}))
	return all
}

// older repacks a package as an earlier version of itself: with another default
// configuration, and with a file that later ones do not have.
func older(t *testing.T, deb string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "older")
	run(t, exec.CommandContext(t.Context(), "dpkg-deb", "--raw-extract", deb, dir))
	control, err := os.ReadFile(filepath.Join(dir, "DEBIAN/control"))
	must.NoError(t, err)
	control = regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAll(control, []byte("Version: 0.0.1-1"))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "DEBIAN/control"), control, 0o644))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "etc/kolo/kolo.hcl"), []byte("log_level = \"debug\"\n"), 0o644))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "usr/share/doc/kolo/old"), nil, 0o644))
	run(t, exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "--build", dir, dir+".deb"))
	return dir + ".deb"
}

// TestAutoscaler takes the package of the autoscaler through its life: installed, started
// as its unit would be, upgraded, removed, purged.
func TestAutoscaler(t *testing.T) {
	deb := releases(t)["kolo"]
	nomad := startNomad(t)
	for name, suite := range suites {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, suite)
			before := m.files()

			m.install(older(t, deb))
			must.StrContains(t, m.read("etc/passwd"), "Kolo autoscaler:/:/usr/sbin/nologin")
			info, err := os.Stat(m.path("etc/kolo/environment"))
			must.NoError(t, err)
			must.Eq(t, "-rw-------", info.Mode().String())
			m.append("etc/kolo/environment", "# mine\nNOMAD_ADDR="+nomad+"\n")
			m.checkUnit()
			m.checkRuns()

			m.install(deb)
			must.StrContains(t, m.read("etc/kolo/environment"), "# mine\n") // the user's
			must.StrNotContains(t, m.read("etc/kolo/kolo.hcl"), "debug")    // the package's
			_, err = os.Stat(m.path("usr/share/doc/kolo/old"))
			must.ErrorIs(t, err, fs.ErrNotExist)
			m.checkRuns()

			m.run("dpkg", "--remove", "kolo")
			must.StrContains(t, m.read("etc/kolo/environment"), "# mine\n")
			_, err = os.Stat(m.path("usr/lib/systemd/system/kolo.service"))
			must.ErrorIs(t, err, fs.ErrNotExist)

			must.NoError(t, os.RemoveAll(m.path("run/kolo"))) // systemd removes it with the service
			m.run("dpkg", "--purge", "kolo")
			must.Eq(t, before, m.files())
		})
	}
}

// Without systemd, the package creates the user with useradd.
func TestAutoscaler_WithoutSystemd(t *testing.T) {
	deb := releases(t)["kolo"]
	for name, suite := range suites {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, suite)
			for _, program := range []string{"systemctl", "systemd-sysusers"} {
				must.NoError(t, os.Remove(m.path("usr/bin/"+program)))
			}
			before := m.files()
			m.install(deb)
			must.StrContains(t, m.read("etc/passwd"), "Kolo autoscaler:/:/usr/sbin/nologin")
			m.run("kolo", "version")
			m.run("dpkg", "--purge", "kolo")
			must.Eq(t, before, m.files())
		})
	}
}

// TestOthers installs the packages that only have programs, and removes them.
func TestOthers(t *testing.T) {
	debs := releases(t)
	delete(debs, "kolo")
	for name, suite := range suites {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, suite)
			before := m.files()
			m.install(debs["kolo-worker"], debs["kolo-nomad-driver"], debs["kolo-nomad-device"])
			for _, program := range []string{"kolo-worker", "nomad-driver-horovod", "nomad-driver-torch", "nomad-device-nvtopo"} {
				must.StrHasPrefix(t, program+" ", m.run(program, "version"))
				_, err := os.Stat(m.path("usr/share/man/man1/" + program + ".1.gz"))
				must.NoError(t, err)
			}
			for _, plugin := range []string{"nomad-driver-horovod", "nomad-driver-torch", "nomad-device-nvtopo"} {
				m.run("/usr/lib/nomad/plugins/"+plugin, "version")
			}
			m.run("dpkg", "--purge", "kolo-worker", "kolo-nomad-driver", "kolo-nomad-device")
			must.Eq(t, before, m.files())
		})
	}
}

// checkUnit asks this Debian's systemd what it thinks of the unit.
func (m *machine) checkUnit() {
	m.t.Helper()
	const unit = "/usr/lib/systemd/system/kolo.service"
	must.Eq(m.t, "", m.run("systemd-analyze", "verify", "--man=no", unit))
	out := m.run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", unit) // fails above 2.0 of 10
	lines := strings.Split(strings.TrimSpace(out), "\n")
	m.t.Log(lines[len(lines)-1])
}

// unit are the settings of the installed unit.
func (m *machine) unit() map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(m.read("usr/lib/systemd/system/kolo.service")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			settings[name] = value
		}
	}
	return settings
}

// environment is that of an EnvironmentFile.
func (m *machine) environment(file string) []string {
	var env []string
	for line := range strings.Lines(m.read(strings.TrimPrefix(file, "-"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			env = append(env, line)
		}
	}
	return env
}

// checkRuns starts the autoscaler as its unit says, and asks it for its status as root
// does: by the socket in its runtime directory.
func (m *machine) checkRuns() {
	m.t.Helper()
	u := m.unit()
	directory := "/run/" + u["RuntimeDirectory"]
	m.run("install", "--directory", "--owner="+u["User"], "--group="+u["Group"], "--mode="+u["RuntimeDirectoryMode"], directory)
	args := []string{"setpriv", "--reuid=" + u["User"], "--regid=" + u["Group"], "--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"}
	cmd := m.command(append(args, strings.Fields(u["ExecStart"])...)...)
	cmd.Env = append(cmd.Env, m.environment(u["EnvironmentFile"])...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	must.NoError(m.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	var status []byte
	must.Wait(m.t, wait.InitialSuccess(wait.Timeout(time.Minute), wait.Gap(100*time.Millisecond), wait.ErrorFunc(func() error {
		var err error
		if status, err = m.command("kolo", "status").CombinedOutput(); err != nil {
			return fmt.Errorf("kolo status: %w: %s", err, status)
		}
		return nil
	})))
	m.t.Logf("kolo status:\n%s", status)
	process, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	must.NoError(m.t, err)
	for _, line := range []string{`CapEff:\t0{16}`, `CapPrm:\t0{16}`, `CapBnd:\t0{16}`, `NoNewPrivs:\t1`, `Uid:\t[1-9]\d*\t`} {
		must.RegexMatch(m.t, regexp.MustCompile("(?m)^"+line), string(process))
	}
	must.NoError(m.t, cmd.Process.Signal(os.Interrupt))
	must.NoError(m.t, <-ended, must.Sprint(log.String()))
}
