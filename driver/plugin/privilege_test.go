// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
)

// isolated skips where tasks cannot be isolated.
func isolated(t *testing.T) {
	t.Helper()
	if err := canIsolate(); err != nil {
		t.Skip(err)
	}
}

// hostSecret puts a file of root's into a directory of the host's /etc that no
// task has a reason to see.
func hostSecret(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("/etc", "kolo-test-")
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "secret")
	must.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	must.NoError(t, os.Chmod(path, mode))
	return path
}

func TestRootIsRefusedByNumber(t *testing.T) {
	isolated(t)
	for _, user := range []string{"root", "0"} {
		t.Run(user, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolationExec, `true`)
			c.User = user
			_, _, err := h.StartTask(c)
			must.ErrorContains(t, err, "allow_root")
		})
	}
}

// TestTaskHasNoPrivileges checks the agent, a process that it started, and the
// processes of `nomad alloc exec` and health checks next to it.
func TestTaskHasNoPrivileges(t *testing.T) {
	isolated(t)
	nobody, err := account.Lookup("nobody")
	must.NoError(t, err)
	const status = `grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status`
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, status+`; sh -c "`+status+`"; echo ready; exec sleep 1000`)
	h.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready") })
	streamed := &terminal{}
	must.NoError(t, h.driver.ExecTaskStreamingRaw(t.Context(), c.ID, []string{"/bin/sh", "-c", status}, false, streamed))
	stdout, _, _ := streamed.results()
	check, err := h.ExecTask(c.ID, []string{"/bin/sh", "-c", status}, patience)
	must.NoError(t, err)
	for name, text := range map[string]string{"agent and slot": output(t, c), "alloc exec": stdout, "check": string(check.Stdout)} {
		t.Run(name, func(t *testing.T) {
			noPrivileges(t, text, nobody)
		})
	}
}

// noPrivileges checks lines of /proc/self/status.
func noPrivileges(t *testing.T, text string, who account.Account) {
	t.Helper()
	ids := func(id int) string { return strings.TrimSpace(strings.Repeat(" "+strconv.Itoa(id), 4)) }
	n := 0
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		n++
		got := strings.Join(strings.Fields(value), " ")
		want := "0000000000000000"
		switch key {
		case "Uid":
			want = ids(who.UID)
		case "Gid":
			want = ids(who.GID)
		case "Groups":
			want = strconv.Itoa(who.GID)
		case "NoNewPrivs":
			want = "1"
		}
		must.Eq(t, want, got, must.Sprint(key))
	}
	must.GreaterEq(t, 9, n)
}

func TestTaskSeesNamedPartsOfEtcOnly(t *testing.T) {
	isolated(t)
	for name, mode := range map[string]fs.FileMode{"for root": 0o600, "for all": 0o644} {
		t.Run(name, func(t *testing.T) {
			secret := hostSecret(t, mode)
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolationExec, `cat `+secret+`; ls /etc/shadow /etc/ssl/private; getent passwd nobody >/dev/null && echo names`)
			h.start(t, c)
			h.end(t, c.ID)
			must.StrNotContains(t, output(t, c), "precious")
			must.StrContains(t, output(t, c), "/etc/shadow': No such file")
			must.StrContains(t, output(t, c), "names")
		})
	}
}

// TestTaskOnTheHostHasItsOwnGroups covers isolation = "none", where Nomad's
// executor adds group 0 to those of the task's user.
func TestTaskOnTheHostHasItsOwnGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	nobody, err := account.Lookup("nobody")
	must.NoError(t, err)
	reachable(t)
	const status = `grep -E '^(Uid|Gid|Groups|CapEff|NoNewPrivs)' /proc/self/status; echo "$NOMAD_JOB_ID"`
	want := fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\nGroups:\t%[2]d \nCapEff:\t0000000000000000\nNoNewPrivs:\t0\njob\n", nobody.UID, nobody.GID)
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, status+`; exec sleep 1000`)
	c.User = "nobody"
	h.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "job\n") })
	must.Eq(t, want, output(t, c))
	streamed := &terminal{}
	must.NoError(t, h.driver.ExecTaskStreamingRaw(t.Context(), c.ID, []string{"/bin/sh", "-c", status}, false, streamed))
	stdout, stderr, _ := streamed.results()
	must.Eq(t, want, stdout+stderr)
	check, err := h.ExecTask(c.ID, []string{"/bin/sh", "-c", status}, patience)
	must.NoError(t, err)
	must.Eq(t, want, string(check.Stdout))
}

// reachable lets other users run the test's binary, which go puts into a
// directory of its own.
func reachable(t *testing.T) {
	t.Helper()
	binary, err := ownPath()
	must.NoError(t, err)
	for p := filepath.Dir(binary); strings.HasPrefix(p, os.TempDir()) && p != os.TempDir(); p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		must.NoError(t, err)
		must.NoError(t, os.Chmod(p, fi.Mode().Perm()|0o055))
		t.Cleanup(func() { _ = os.Chmod(p, fi.Mode().Perm()) })
	}
}
