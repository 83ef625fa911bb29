// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/shoenig/test/must"
)

// TestNomadMakesUsersUp covers the capability that Nomad checks before it gives a task a
// user of its own.
func TestNomadMakesUsersUp(t *testing.T) {
	for _, on := range []bool{true, false} {
		h := newHarness(t, noIsolation())
		if !on {
			must.NoError(t, h.SetConfig(&base.Config{PluginConfig: encoded(t, map[string]any{"enabled": true, "dynamic_users": false})}))
		} else {
			must.NoError(t, h.SetConfig(&base.Config{}))
		}
		c, err := h.Capabilities()
		must.NoError(t, err)
		must.Eq(t, on, c.DynamicWorkloadUsers)
	}
}

// TestDynamicUser starts a task as a user that is in no user database.
func TestDynamicUser(t *testing.T) {
	isolated(t)
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `
		id -u; id -g; id -G; id -un; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
		echo x > "$HOME/x" && ls -ld "$HOME" | cut -c1-10
		test "$(getent passwd $USER | cut -d: -f6)" = "$HOME" && echo home
		touch /dev/shm/x local/x && echo writes`)
	c.User = "nomad-80123"
	h.start(t, c)
	r := h.end(t, c.ID)
	must.True(t, r.Successful(), must.Sprintf("%+v: %s", r, output(t, c)))
	want := "80123\n80123\n80123\nnomad-80123\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\ndrwx------\nhome\nwrites\n"
	must.Eq(t, want, output(t, c))
	must.NoError(t, h.DestroyTask(c.ID, false))

	t.Log("once the job was scaled, Nomad no longer names the user")
	c.User = ""
	h.start(t, c)
	must.True(t, h.end(t, c.ID).Successful())
	must.Eq(t, want, output(t, c))
}

// A task that is started again does not fail because of processes that are about to end.
func TestDynamicUserOfAnEarlierRun(t *testing.T) {
	isolated(t)
	earlier := exec.CommandContext(t.Context(), "sleep", "1")
	earlier.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 80126, Gid: 80126}}
	earlier.Dir = "/"
	must.NoError(t, earlier.Start())
	go func() { _ = earlier.Wait() }()
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `id -u`)
	c.User = "nomad-80126"
	h.start(t, c)
	must.True(t, h.end(t, c.ID).Successful())
	must.Eq(t, "80126\n", output(t, c))
}

func TestDynamicUserOfAnotherTask(t *testing.T) {
	isolated(t)
	other := exec.CommandContext(t.Context(), "sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 80124, Gid: 80124}}
	other.Dir = "/"
	must.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	h := newHarness(t, noIsolation())
	for user, want := range map[string]string{
		"nomad-80124":      "is in use by another task (process",
		"nomad-0":          "has uid 0",
		"nomad-9999999999": "is no number of a user",
	} {
		c := newTaskConfig(t, isolationExec, `true`)
		c.User = user
		_, _, err := h.StartTask(c)
		must.ErrorContains(t, err, want)
	}
	h = newHarness(t, &Config{Enabled: true, DeniedHostUids: "80000-80999"})
	c := newTaskConfig(t, isolationExec, `true`)
	c.User = "nomad-80125"
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, "running as uid 80125 is disallowed")
}

// Without isolation, a task that names no user runs as the client's user, as with raw_exec.
func TestDynamicUserWithoutIsolation(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `id -u`)
	c.User = "nomad-80126"
	h.start(t, c)
	must.True(t, h.end(t, c.ID).Successful())
	must.Eq(t, 0, os.Geteuid()*strings.Count(output(t, c), "80126"))
}

// TestHome covers the variable by which programs find caches and settings.
func TestHome(t *testing.T) {
	isolated(t)
	t.Setenv("HOME", "/root") // the client's, which Nomad adds to every task's environment
	own := "/local/kolo/home"
	for name, c := range map[string]struct{ home, want string }{
		"the job's":    {"/tmp", "/tmp"},
		"none":         {"", own},
		"the client's": {"/root", own},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			task := newTaskConfig(t, isolationExec, `echo $HOME; mkdir -p "$HOME/.cache" && env | grep -c '^HOME='`)
			task.User = "nobody"
			if c.home != "" {
				task.Env["HOME"] = c.home
			}
			h.start(t, task)
			must.True(t, h.end(t, task.ID).Successful(), must.Sprint(output(t, task)))
			must.Eq(t, c.want+"\n1\n", output(t, task))
		})
	}
	t.Run("without isolation", func(t *testing.T) {
		h := newHarness(t, noIsolation())
		c := newTaskConfig(t, isolationNone, `echo $USER $HOME; touch "$HOME/x"`)
		c.User, c.Env["HOME"] = "nobody", "/root"
		for _, file := range []string{os.Args[0], filepath.Dir(os.Args[0]), filepath.Dir(filepath.Dir(os.Args[0]))} {
			must.NoError(t, os.Chmod(file, 0o755))
		}
		h.start(t, c)
		must.True(t, h.end(t, c.ID).Successful(), must.Sprint(output(t, c)))
		must.Eq(t, "nobody "+c.TaskDir().Dir+own+"\n", output(t, c))
	})
}

// TestProcessesAreBounded starts more processes than a task may have.
func TestProcessesAreBounded(t *testing.T) {
	isolated(t)
	h := newHarness(t, &Config{Enabled: true, PidsLimit: 40})
	c := newTaskConfig(t, isolationExec, `sleep 1; (for i in $(seq 100); do sleep 1000 >/dev/null 2>&1 & done) 2>&1 | grep -ci 'cannot fork'; exit 0`)
	h.start(t, c)
	must.True(t, h.end(t, c.ID).Successful())
	must.Eq(t, "1\n", output(t, c), must.Sprint("the shell gives up at the first process that it can't start"))
}

// encoded returns the plugin's configuration as Nomad sends it.
func encoded(t *testing.T, config map[string]any) []byte {
	t.Helper()
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, config))
	return data
}
