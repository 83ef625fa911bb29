// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
)

// TestLinksOfATaskLeadRootNowhere has a task create links at the paths where root writes
// when the task is started again.
func TestLinksOfATaskLeadRootNowhere(t *testing.T) {
	links := map[string]func(c *drivers.TaskConfig) string{
		"log of the executor": func(c *drivers.TaskConfig) string { return filepath.Join(c.TaskDir().Dir, "executor.out") },
		"notes on events":     func(c *drivers.TaskConfig) string { return filepath.Join(c.TaskDir().Dir, "kolo-events.offset") },
		"hosts":               func(c *drivers.TaskConfig) string { return filepath.Join(c.TaskDir().Dir, "kolo-hosts") },
		"output":              func(c *drivers.TaskConfig) string { return c.StdoutPath },
		"agent": func(c *drivers.TaskConfig) string {
			return filepath.Join(c.TaskDir().LocalDir, "/.kolo/nomad-driver")
		},
		"agent on the host": func(c *drivers.TaskConfig) string {
			self, _ := ownPath()
			return filepath.Join(c.TaskDir().LocalDir, self)
		},
		"state of the container": func(c *drivers.TaskConfig) string { return filepath.Join(c.TaskDir().SharedAllocDir, "container") },
	}
	for _, isolation := range isolations(t) {
		for name, link := range links {
			t.Run(isolation+"/"+name, func(t *testing.T) {
				config := noIsolation()
				config.ExecutorLogLevel = "trace"
				h := newHarness(t, config)
				outside := filepath.Join(t.TempDir(), "host")
				if name == "state of the container" {
					must.NoError(t, os.Mkdir(outside, 0o700))
				} else {
					must.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
				}
				before, err := os.Stat(outside)
				must.NoError(t, err)
				c := newTaskConfig(t, isolation, `echo '{"message":"began"}' >> "$EVENTS"; echo output; sleep 1`)
				if isolation == isolationExec {
					c.User = "nobody" // who may not be able to run the test's own binary
				}
				path := link(c)
				must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				_ = os.Remove(path)
				must.NoError(t, os.Symlink(outside, path))
				if _, _, err := h.StartTask(c); err == nil {
					t.Cleanup(func() { _ = h.driver.DestroyTask(c.ID, true) })
					eventually(t, "the task has ended", func() bool {
						status, err := h.InspectTask(c.ID)
						return err != nil || status.State == drivers.TaskStateExited
					})
				}
				after, err := os.Stat(outside)
				must.NoError(t, err)
				must.Eq(t, before.Mode(), after.Mode())
				must.Eq(t, before.Sys(), after.Sys(), must.Sprint("untouched, its owner included"))
			})
		}
	}
}

// TestExecutorFindsTheDriversBinaryAlone covers the file that the executor, as
// root, makes executable: it searches every mount for the binary's name.
func TestExecutorFindsTheDriversBinaryAlone(t *testing.T) {
	isolated(t)
	for name, dir := range map[string]string{
		"task directory": ".", "local": "local", "tmp": "tmp", "secrets": "secrets", "shared": "../alloc",
	} {
		t.Run(name, func(t *testing.T) {
			secret := hostSecret(t, 0o600)
			c := newTaskConfig(t, isolationExec, `true`)
			link := filepath.Join(c.TaskDir().Dir, dir, isolation.AgentPath)
			must.NoError(t, os.Mkdir(filepath.Dir(link), 0o755))
			must.NoError(t, os.Symlink(secret, link))
			ran(t, noIsolation(), c)
			fi, err := os.Stat(secret)
			must.NoError(t, err)
			must.Eq(t, os.FileMode(0o600), fi.Mode().Perm())
		})
	}
}

// TestReplacedLogsAreNotShown has another task of the allocation that has replaced
// the logs, which the task sees, by a link.
func TestReplacedLogsAreNotShown(t *testing.T) {
	isolated(t)
	secret := hostSecret(t, 0o644)
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `cat /alloc/logs/secret > /local/out`)
	c.StdoutPath, c.StderrPath = os.DevNull, os.DevNull // logs { disabled = true }
	must.NoError(t, os.RemoveAll(c.TaskDir().LogDir))
	must.NoError(t, os.Symlink(filepath.Dir(secret), c.TaskDir().LogDir))
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, "another task of the allocation has replaced this directory")
}

// TestTaskCannotReplaceWhatRootRuns moves away, before `alloc exec`, the
// directories of the driver's binary and the loader's configuration.
func TestTaskCannotReplaceWhatRootRuns(t *testing.T) {
	isolated(t)
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `
		mv /etc /moved; mkdir -p /etc && echo /local/evil.so > /etc/ld.so.preload && echo preload
		mv /.kolo /moved2; mkdir -p /.kolo && echo '#!/bin/sh' > /.kolo/nomad-driver && echo replaced
		rm -rf /lib64 2>/dev/null; mv /lib64 /moved3 2>/dev/null && echo moved
		echo ready; exec sleep 1000`)
	h.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready\n") })
	for _, word := range []string{"preload\n", "replaced\n", "moved\n"} {
		must.StrNotContains(t, output(t, c), word)
	}
}
