// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package security

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// TestTenant checks what one tenant's job must not be able to do to the client and
// to other tenants.
func TestTenant(t *testing.T) {
	w := start(t)
	t.Run("runs as root", w.runsAsRoot)
	t.Run("has privileges", w.hasPrivileges)
	t.Run("takes devices", w.takesDevices)
	t.Run("plants links", w.plantsLinks)
	t.Run("spoils its events", w.spoilsItsEvents)
	t.Run("speaks with another's rendezvous", w.speaksWithAnothersRendezvous)
	t.Run("takes a place in another's group", w.takesAPlaceInAnothersGroup)
	t.Run("commands the autoscaler", w.commandsTheAutoscaler)
}

// A task that runs as root could mount the host's file systems writable.
func (w *world) runsAsRoot(t *testing.T) {
	for _, user := range []string{"root", "0"} {
		t.Run(user, func(t *testing.T) {
			file := fmt.Sprintf("/etc/kolo-e2e-%d", os.Getpid())
			t.Cleanup(func() { _ = os.Remove(file) }) // it is there only where the attack works
			out := w.attacker.outcome(within(t, 2*time.Minute), t, w.attacker.run(t, attack{
				Script: "root.py", User: user, Args: []string{file}, Name: "attack-root-" + user,
			}))
			_, err := os.Stat(file)
			must.ErrorIs(t, err, os.ErrNotExist, must.Sprint("a task wrote to the host's /etc"))
			must.False(t, out.Reported, must.Sprint("a task runs as root"))
			must.StrContains(t, strings.Join(out.Events, "\n"), "user = ")
		})
	}
}

// A task of the default user has no privilege, and neither has a command that is
// run next to it.
func (w *world) hasPrivileges(t *testing.T) {
	ctx := within(t, 2*time.Minute)
	secret := write(t, fmt.Sprintf("/etc/kolo-e2e-%d.key", os.Getpid()), 0o600)
	public := write(t, fmt.Sprintf("/etc/kolo-e2e-%d.conf", os.Getpid()), 0o644)
	job := w.attacker.run(t, attack{Script: "privileges.py", Args: []string{secret, public}})
	out := w.attacker.outcome(ctx, t, job)
	must.True(t, out.Reported, must.Sprint(out.Events))

	alloc, _, err := w.API.Allocations().Info(out.Alloc.ID, nil)
	must.NoError(t, err)
	var text bytes.Buffer
	_, err = w.API.Allocations().Exec(ctx, alloc, "attack", false,
		[]string{"/bin/sh", "-c", "id; grep -E '^(Cap|NoNewPrivs|Groups|Gid)' /proc/self/status; cat " + secret},
		strings.NewReader(""), &text, &text, nil, nil)
	must.NoError(t, err)
	t.Logf("nomad alloc exec: %s", text.String())
	must.MapEmpty(t, out.Achieved)
	status := strings.Fields(text.String())
	for _, set := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"} {
		must.Eq(t, "0000000000000000", status[slices.Index(status, set)+1], must.Sprint("of a command run next to the task: ", set))
	}
	must.Eq(t, "1", status[slices.Index(status, "NoNewPrivs:")+1], must.Sprint("of a command run next to the task"))
	must.StrNotContains(t, text.String(), "gid=0")
	must.RegexMatch(t, regexp.MustCompile(`uid=(8[0-9]{4})\(nomad-8[0-9]{4}\)`), text.String(), must.Sprint("the task shares its user with others"))
	must.StrNotContains(t, text.String(), "not for tasks")
}

// A job's own environment names no GPU: Nomad's reservations do.
func (w *world) takesDevices(t *testing.T) {
	// The numbers of NVIDIA's driver; without one, the node opens nothing.
	const node = "/dev/nvidia97"
	must.NoError(t, unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 97))))
	t.Cleanup(func() { must.NoError(t, os.Remove(node)) })
	for name, env := range map[string]map[string]string{
		"reservation": {"KOLO_GPUS_0123abcd": "GPU-11111111-2222-3333-4444-555555555555"},
		"runtime":     {"NVIDIA_VISIBLE_DEVICES": "nonsense"},
		"cuda":        {"CUDA_VISIBLE_DEVICES": "0,1,2,3"},
		"all":         {"NVIDIA_VISIBLE_DEVICES": "all"},
	} {
		t.Run(name, func(t *testing.T) {
			out := w.attacker.outcome(within(t, 2*time.Minute), t, w.attacker.run(t, attack{
				Script: "devices.py", Env: env, Name: "attack-devices-" + name,
			}))
			must.MapNotContainsKey(t, out.Achieved, "see device nodes")
			if !out.Reported { // refused as a whole, which is as good
				must.StrContains(t, strings.Join(out.Events, "\n"), "GPU")
			}
		})
	}
}

// What root writes for a task leads nowhere else, whatever the task puts in its
// place.
func (w *world) plantsLinks(t *testing.T) {
	dir := t.TempDir()
	out := w.attacker.outcome(within(t, 2*time.Minute), t, w.attacker.run(t, attack{Script: "links.py", Args: []string{dir}, Restarts: 1}))
	must.True(t, out.Reported, must.Sprint(out.Events))
	written, err := os.ReadDir(dir)
	must.NoError(t, err)
	must.SliceEmpty(t, written, must.Sprint("root wrote where a task's links lead"))
}

// A task whose event file never ends, or is a pipe, is stopped like any other.
func (w *world) spoilsItsEvents(t *testing.T) {
	for _, how := range []string{"sparse", "fifo"} {
		t.Run(how, func(t *testing.T) {
			job := w.attacker.run(t, attack{Script: "events.py", Args: []string{how}, Name: "attack-events-" + how})
			out := w.attacker.outcome(within(t, 2*time.Minute), t, job)
			must.MapContainsKey(t, out.Achieved, how)
			_, _, err := w.attacker.api.Jobs().Deregister(job, false, nil)
			must.NoError(t, err)
			w.attacker.ended(within(t, time.Minute), t, job)
		})
	}
}
