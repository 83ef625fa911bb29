// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// TestJobspecWithoutRoot runs jobspecs/kolo.nomad.hcl: two isolated agents that run
// as nobody, with only the rights of their workload identity.
func TestJobspecWithoutRoot(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(givenNomad) != "" {
		t.Skip("requires root, for clients that can isolate tasks")
	}
	program := filepath.Join(t.TempDir(), "kolo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./autoscaler/cmd/kolo")
	build.Dir, build.Env = root(t), append(os.Environ(), "CGO_ENABLED=0") // alone in its root
	out, err := build.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	w := startWith(t, cluster.Options{Clients: 2, CPU: 4000, MemoryMB: 4096, ACL: true, ClientHCL: fmt.Sprintf(`
  chroot_env {
    %q      = "/usr/local/bin/kolo"
    "/etc/hosts" = "/etc/hosts"
  }`, program)})

	rules, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "kolo.policy.hcl"))
	must.NoError(t, err)
	_, err = w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: "kolo-job", Rules: string(rules), JobACL: &api.JobACL{Namespace: "default", JobID: "kolo"}}, nil)
	must.NoError(t, err)
	spec, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "kolo.nomad.hcl"))
	must.NoError(t, err)
	_, err = w.Register(t.Context(), string(spec), cluster.Vars{"pools": `pool "default" {
  cpu_slot = 1000
  policy "elastic-fifo" {}
}`})
	must.NoError(t, err)

	var agents []*daemon
	waitFor(t, 3*time.Minute, "two agents, of which one leads", func() bool {
		at, _, err := w.API.Services().Get("kolo", nil)
		if err != nil || len(at) != 2 {
			return false
		}
		agents = nil
		leading := 0
		for _, s := range at {
			d := &daemon{t: t, address: fmt.Sprintf("http://%s:%d", s.Address, s.Port), binary: w.binary}
			if st, err := d.status(); err != nil || !st.Ready {
				return false
			}
			if d.leads() {
				leading++
			}
			agents = append(agents, d)
		}
		return leading == 1
	})
	processes := processesOf(t, program)
	must.MapLen(t, 2, processes, must.Sprint("agents that run"))
	for dir, uid := range processes {
		must.Eq(t, "65534", uid)
		t.Log("another task of that user, which runs without isolation, does not read its token")
		must.ErrorIs(t, readAs(65534, filepath.Join(dir, "environ")), os.ErrPermission)
	}

	w.submit(t, "a", "min = 1")
	waitFor(t, time.Minute, "workers", func() bool { n, err := w.count("a"); return err == nil && n > 0 })

	t.Log("no one on the network pauses it without a token, and with one any agent will do")
	operator, _, err := w.API.ACLTokens().Create(&api.ACLToken{Name: "operator", Type: "client", Policies: []string{"kolo"}}, nil)
	must.NoError(t, err)
	for _, d := range agents {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, d.address+"/v1/pause", strings.NewReader("{}"))
		must.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		must.NoError(t, err)
		must.NoError(t, resp.Body.Close())
		must.Eq(t, http.StatusUnauthorized, resp.StatusCode)
		d.token = operator.SecretID
		out, err := d.kolo("pause")
		must.NoError(t, err, must.Sprint(out))
		waitFor(t, 20*time.Second, "the pause", func() bool {
			st := leaderOf(agents)
			return st != nil && st.Paused
		})
		out, err = d.kolo("resume")
		must.NoError(t, err, must.Sprint(out))
	}

	t.Log("the record names who, and no log has the token")
	var logs string
	waitFor(t, 20*time.Second, "the record of both in the logs, which Nomad writes", func() bool {
		logs = w.logsOf(t, "kolo")
		return strings.Contains(logs, fmt.Sprintf(`kolo.audit: pause: who="token %s (operator)"`, operator.AccessorID)) &&
			strings.Contains(logs, `kolo.audit: pause: who="no token"`)
	})
	must.StrNotContains(t, logs, operator.SecretID)
	for line := range strings.Lines(logs) {
		if strings.Contains(line, "kolo.audit: ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	w.purge(t, "a", "kolo")
}

// logsOf returns what the job's running allocations have written so far.
func (w *world) logsOf(t *testing.T, job string) string {
	t.Helper()
	allocs, err := w.Running(t.Context(), job)
	must.NoError(t, err)
	var written strings.Builder
	for _, a := range allocs {
		paths, err := filepath.Glob(filepath.Join(w.Dir, "*", "alloc", a.ID, "alloc", "logs", "agent.std*"))
		must.NoError(t, err)
		for _, p := range paths {
			text, err := os.ReadFile(p)
			must.NoError(t, err)
			written.Write(text)
		}
	}
	return written.String()
}

func leaderOf(agents []*daemon) *koloapi.Status {
	for _, d := range agents {
		if s, err := d.status(); err == nil && s.Leading {
			return s
		}
	}
	return nil
}

// readAs reads a file with the rights of a user: those of a thread, which ends
// with them.
func readAs(uid int, path string) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := syscall.Setfsuid(uid); err != nil {
			failed <- err
			return
		}
		_, err := os.ReadFile(path)
		failed <- err
	}()
	return <-failed
}

// processesOf returns the processes that run a program, recognized by its size, since
// isolated tasks have a copy in their own root: the directory in /proc, and the
// real user.
func processesOf(t *testing.T, program string) map[string]string {
	want, err := os.Stat(program)
	must.NoError(t, err)
	paths, err := filepath.Glob("/proc/[0-9]*")
	must.NoError(t, err)
	out := map[string]string{}
	for _, p := range paths {
		exe, err := os.Stat(p + "/exe")
		if err != nil || exe.Size() != want.Size() {
			continue // it has ended, or is another's
		}
		text, err := os.ReadFile(p + "/status")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), "\nUid:")
		out[p] = strings.Fields(rest)[0]
	}
	return out
}
