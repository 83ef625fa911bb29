// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package security

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// training is a victim's elastic job.
type training struct {
	t  *testing.T
	tn *tenant
	id string
}

// trains submits jobspecs/horovod.nomad.hcl for the tenant, isolated.
func (tn *tenant) trains(t *testing.T) *training {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "horovod.nomad.hcl"))
	must.NoError(t, err)
	venv, err := filepath.EvalSymlinks(filepath.Join(root(t), ".venv"))
	must.NoError(t, err)
	spec := strings.Replace(string(text), `default     = "python3"`, fmt.Sprintf("default = %q", filepath.Join(venv, "bin", "python")), 1)
	spec = strings.Replace(spec, "state.epoch < 300", "state.epoch < 300000", 1)
	tn.register(t, spec, func(job *api.Job) {
		one := 1
		job.TaskGroups[0].Count = &one
	})
	return &training{t: t, tn: tn, id: "horovod"}
}

// slots returns the training processes.
func (tr *training) slots() []cluster.Process {
	return cluster.Processes(func(p cluster.Process) bool {
		return p.Env["NOMAD_JOB_ID"] == tr.id && p.Env["NOMAD_NAMESPACE"] == tr.tn.namespace && p.Env["HOROVOD_RANK"] != "" &&
			strings.Contains(p.Env["NOMAD_ALLOC_DIR"], tr.tn.w.Dir)
	})
}

// status asks the job's agents how training goes.
func (tr *training) status(ctx context.Context) (size int, step float64, err error) {
	services, _, err := tr.tn.api.Services().Get(tr.id, new(api.QueryOptions).WithContext(ctx))
	if err != nil || len(services) == 0 {
		return 0, 0, fmt.Errorf("%d instances of the service: %w", len(services), err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/v1/status", services[0].Address, services[0].Port), nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	var s struct {
		Size int      `json:"size"`
		Step *float64 `json:"step"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return 0, 0, err
	}
	if s.Step == nil {
		return s.Size, 0, errors.New("it has made no step yet")
	}
	return s.Size, *s.Step, nil
}

// advances waits until a ring of the size makes steps.
func (tr *training) advances(ctx context.Context, size int) {
	tr.t.Helper()
	from := -1.0
	must.NoError(tr.t, cluster.Until(ctx, fmt.Sprintf("a ring of %d to make steps", size), func(ctx context.Context) error {
		got, step, err := tr.status(ctx)
		if err != nil {
			return err
		}
		if got != size {
			return fmt.Errorf("the ring has %d", got)
		}
		if from < 0 {
			from = step
		}
		if step < from+100 {
			return fmt.Errorf("it is at step %v, and was at %v", step, from)
		}
		return nil
	}))
}

// The rendezvous of a slot is on the client's loopback, where every tenant's
// tasks are.
func (w *world) speaksWithAnothersRendezvous(t *testing.T) {
	ctx := within(t, 4*time.Minute)
	tr := w.victim.trains(t)
	tr.advances(ctx, 1)
	slots := tr.slots()
	must.SliceNotEmpty(t, slots)
	out := w.attacker.outcome(ctx, t, w.attacker.run(t, attack{
		Script: "rendezvous.py", Args: []string{slots[0].Env["HOROVOD_GLOO_RENDEZVOUS_PORT"]},
	}))
	must.True(t, out.Reported, must.Sprint(out.Events))
	must.MapEmpty(t, out.Achieved)

	t.Log("the attacker holds connections meanwhile")
	two := 2
	_, _, err := w.victim.api.Jobs().Scale(tr.id, "workers", &two, "", false, nil, nil)
	must.NoError(t, err)
	tr.advances(ctx, 2)
}

// A process group listens on the client's network, and Gloo gives a place in it to any
// process that names its number first.
func (w *world) takesAPlaceInAnothersGroup(t *testing.T) {
	python := filepath.Join(root(t), train.Torch.Python)
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	ctx := within(t, 8*time.Minute)
	attacker := w.attacker.run(t, attack{Script: "group.py"})
	heard := func(ctx context.Context) (string, error) {
		allocs, err := w.attacker.allocs(ctx, attacker)
		if err != nil || len(allocs) == 0 {
			return "", fmt.Errorf("no allocation: %w", err)
		}
		return w.Logs(allocs[len(allocs)-1].ID, "attack", "stdout")
	}
	must.NoError(t, cluster.Until(ctx, "the attacker to listen", func(ctx context.Context) error {
		log, err := heard(ctx)
		if err == nil && !strings.Contains(log, "ready") {
			err = fmt.Errorf("it has printed %q", log)
		}
		return err
	}))
	text, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "torch.nomad.hcl"))
	must.NoError(t, err)
	spec := strings.Replace(string(text), `default     = "python3"`, fmt.Sprintf("default = %q", python), 1)
	spec = strings.Replace(spec, "state.epochs(300)", "state.epochs(300000)", 1)
	w.victim.register(t, spec, func(job *api.Job) {
		job.TaskGroups[0].Tasks[0].Env = train.Torch.Env(root(t))
	})
	tr := &training{t: t, tn: w.victim, id: "torch"}

	named := func() bool {
		allocs, err := w.victim.allocs(ctx, tr.id)
		must.NoError(t, err)
		for _, a := range allocs {
			for _, e := range cluster.Events(a) {
				if strings.Contains(e, "is none of its members (user ") {
					t.Log(e)
					return true
				}
			}
		}
		return false
	}
	scale := func(count int) {
		_, _, err := w.victim.api.Jobs().Scale(tr.id, "workers", &count, "", false, nil, nil)
		must.NoError(t, err)
	}
	for found := false; !found; found = found || named() {
		must.NoError(t, cluster.Until(ctx, "a ring of 2 to form, or an event to name the attacker", func(ctx context.Context) error {
			if found = named(); found {
				return nil
			}
			size, _, err := tr.status(ctx)
			if err == nil && size != 2 {
				err = fmt.Errorf("the ring has %d", size)
			}
			return err
		}))
		if !found && !named() { // its members were faster than the attacker
			scale(1)
			tr.advances(ctx, 1)
			scale(2)
		}
	}
	log, err := heard(ctx)
	must.NoError(t, err)
	t.Log(log)
	must.StrContains(t, log, "connected to")
	must.StrNotContains(t, log, "received")

	t.Log("training goes on once the attacker is gone")
	_, _, err = w.attacker.api.Jobs().Deregister(attacker, false, nil)
	must.NoError(t, err)
	tr.advances(ctx, 2)
}

// The autoscaler's API is on a loopback that tasks share, and the agent's own
// token may scale every job.
func (w *world) commandsTheAutoscaler(t *testing.T) {
	ctx := within(t, 3*time.Minute)
	dir := t.TempDir()
	config := filepath.Join(dir, "kolo.hcl")
	must.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "nomad {\n  address = %q\n}\nhttp {\n  port = 18648\n  unix = %q\n}\npool \"default\" {\n  cpu_slot = 1000\n  policy \"elastic-fifo\" {}\n}\n", w.Address, filepath.Join(dir, "kolo.sock")), 0o600))
	kolo := func(args ...string) (string, error) {
		cmd := w.Nodes[0].Command(ctx, filepath.Join(root(t), "bin", "kolo"), args...)
		cmd.Env = append(os.Environ(), "NOMAD_TOKEN="+w.Token, "KOLO_ADDR=http://127.0.0.1:18648")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	agent := w.Nodes[0].Command(ctx, filepath.Join(root(t), "bin", "kolo"), "agent", "-config", config)
	agent.Env = append(os.Environ(), "NOMAD_TOKEN="+w.Token)
	log, err := os.Create(filepath.Join(dir, "log"))
	must.NoError(t, err)
	agent.Stderr = log
	// The test's context ends before its clean-up: the agent ends as an operator
	// ends it.
	agent.Cancel = func() error { return agent.Process.Signal(os.Interrupt) }
	agent.WaitDelay = 10 * time.Second
	must.NoError(t, agent.Start())
	t.Cleanup(func() {
		_ = agent.Wait() // it ends by the signal
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("log of the autoscaler:\n%s", text)
		}
	})
	must.NoError(t, cluster.Until(ctx, "the autoscaler to lead", func(context.Context) error {
		out, err := kolo("status", "-json")
		if err != nil || !strings.Contains(out, `"leading": true`) && !strings.Contains(out, `"leading":true`) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}))

	for who, token := range map[string][]string{
		"no-one": nil, "a-stranger": {"00000000-0000-0000-0000-000000000000"}, "a-tenant": {w.attacker.token},
	} {
		out := w.attacker.outcome(ctx, t, w.attacker.run(t, attack{
			Script: "api.py", Args: append([]string{"http://127.0.0.1:18648"}, token...), Name: "attack-api-as-" + who,
		}))
		must.True(t, out.Reported, must.Sprint(out.Events))
		must.MapEmpty(t, out.Achieved, must.Sprint("as ", who))
	}

	t.Log("the operator's token is enough")
	text, err := kolo("pause")
	must.NoError(t, err, must.Sprint(text))
	text, err = kolo("resume")
	must.NoError(t, err, must.Sprint(text))
}
