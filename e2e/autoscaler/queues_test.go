// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// TestQueues divides a cluster between teams, with access control on and a namespace for
// each team.
func TestQueues(t *testing.T) {
	w := start(t)
	if len(w.Nodes) == 1 {
		t.Skip("the namespaces of a given Nomad are not this test's")
	}
	w.namespaces(t, "research", "courses", "lab-ada")
	d := w.agentWith(t, "one", strings.Replace(fmt.Sprintf(configuration, w.Address), `policy "elastic-fifo" {}`, `policy "elastic-fifo" {}
  queue "research" {
    namespaces = ["research"]
    guarantee  = 8
  }
  queue "courses" {
    namespaces = ["courses"]
    guarantee  = 2
  }
  queue "lab" {
    namespaces = ["lab-*"]
    weight     = 4
    per_namespace {
      limit    = 2
      max_jobs = 1
    }
  }`, 1))
	waitFor(t, time.Minute, "leadership", d.leads)

	t.Log("a team borrows what no other wants")
	w.submitIn(t, "courses", "borrower", "min = 1")
	w.eventuallyIn(t, map[string]int{"courses/borrower": slots})

	t.Log("another takes its guarantee back")
	submitted := time.Now()
	w.submitIn(t, "research", "entitled", "min = 8")
	w.eventuallyIn(t, map[string]int{"research/entitled": 9, "courses/borrower": 3})
	t.Logf("from the submission of the entitled job to the last of its workers: %s", time.Since(submitted).Round(10*time.Millisecond))

	t.Log("a user has what a user may have, and reads why there is no more")
	w.submitIn(t, "lab-ada", "one", "min = 1\npreemptible = true")
	w.eventuallyIn(t, map[string]int{"lab-ada/one": 2, "research/entitled": 8, "courses/borrower": 2})
	w.submitIn(t, "lab-ada", "two", "min = 1")
	w.eventuallyReads(t, d, "two", `over-limit: 1 jobs of queue "lab/lab-ada" run, and its max_jobs is 1`)
	w.submitIn(t, "courses", "firm", "min = 4")
	w.eventuallyReads(t, d, "firm", "no-room: its minimum is 4 slots, and jobs that cannot be suspended leave 3 of the 12 slots of the pool")
	w.eventuallyIn(t, map[string]int{"lab-ada/two": 0, "courses/firm": 0})

	t.Log("the borrower has it all again when the others are gone")
	w.removeIn(t, "research/entitled", "lab-ada/one", "lab-ada/two", "courses/firm")
	w.eventuallyIn(t, map[string]int{"courses/borrower": slots})

	t.Log("a borrower that is not elastic is suspended as a whole")
	w.removeIn(t, "courses/borrower")
	w.submitIn(t, "courses", "rigid", fmt.Sprintf("min = %d\npreemptible = true", slots))
	w.eventuallyIn(t, map[string]int{"courses/rigid": slots})
	submitted = time.Now()
	w.submitIn(t, "research", "entitled", "min = 8")
	w.eventuallyIn(t, map[string]int{"research/entitled": slots, "courses/rigid": 0})
	t.Logf("the same with a borrower of fixed size, which loses all its workers: %s", time.Since(submitted).Round(10*time.Millisecond))
}

// TestQueues_Platform runs the configuration of docs/howto/share-a-pool.md for a platform
// with many users, with CPU slots in place of GPUs.
func TestQueues_Platform(t *testing.T) {
	w := start(t)
	if len(w.Nodes) == 1 {
		t.Skip("the namespaces of a given Nomad are not this test's")
	}
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "howto", "share-a-pool.md"))
	must.NoError(t, err)
	_, after, found := strings.Cut(string(text), "## A platform with many users")
	must.True(t, found)
	_, after, _ = strings.Cut(after, "```hcl\n")
	config, _, _ := strings.Cut(after, "```")
	w.namespaces(t, "user-ada", "user-bob", "course-ml", "project-x")
	d := w.agentWith(t, "one", strings.NewReplacer("https://nomad.example:4646", w.Address, `pool "default" {`, "planner {\n  hold = \"1s\"\n  tick = \"2s\"\n}\npool \"default\" {\n  cpu_slot = 1000\n").Replace(config))
	waitFor(t, time.Minute, "leadership", d.leads)

	t.Log("each user has two slots, and a course one")
	for _, name := range []string{"user-ada/a1", "user-bob/b1", "course-ml/c1"} {
		ns, id, _ := strings.Cut(name, "/")
		w.submitIn(t, ns, id, "min = 1")
	}
	w.eventuallyIn(t, map[string]int{"user-ada/a1": 2, "user-bob/b1": 2, "course-ml/c1": 1})

	t.Log("a user's jobs share them, and others may not use the pool")
	w.submitIn(t, "user-ada", "a2", "min = 1")
	w.eventuallyIn(t, map[string]int{"user-ada/a1": 1, "user-ada/a2": 1, "user-bob/b1": 2})
	w.submitIn(t, "user-ada", "a3", "min = 1")
	w.eventuallyReads(t, d, "a3", "over-limit: ")
	w.submitIn(t, "project-x", "p1", "min = 1")
	waitFor(t, time.Minute, "the problem of p1", func() bool {
		s, err := d.status()
		return err == nil && len(s.Ineligible) == 1 && s.Ineligible[0].ID == "p1"
	})
	w.eventuallyIn(t, map[string]int{"project-x/p1": 0, "user-ada/a3": 0, "course-ml/c1": 1})
}

// namespaces registers namespaces whose jobs the autoscaler may scale.
func (w *world) namespaces(t *testing.T, names ...string) {
	t.Helper()
	var rules strings.Builder
	rules.WriteString(minimal)
	for _, ns := range names {
		_, err := w.API.Namespaces().Register(&api.Namespace{Name: ns}, nil)
		must.NoError(t, err)
		fmt.Fprintf(&rules, "namespace %q {\n  capabilities = [\"list-jobs\", \"read-job\", \"read-job-scaling\", \"scale-job\", \"list-scaling-policies\"]\n}\n", ns)
	}
	_, err := w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: "kolo", Rules: rules.String()}, nil)
	must.NoError(t, err)
}

// removeIn deregisters jobs, by namespace and name.
func (w *world) removeIn(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		ns, id, _ := strings.Cut(name, "/")
		_, _, err := w.API.Jobs().Deregister(id, true, &api.WriteOptions{Namespace: ns})
		must.NoError(t, err)
	}
}

// submitIn registers an elastic job of a namespace.
func (w *world) submitIn(t *testing.T, namespace, name, kolo string) {
	t.Helper()
	hcl := strings.ReplaceAll(jobHCL, "kolo { KOLO }", "kolo {\n"+kolo+"\n}")
	hcl = strings.Replace(hcl, `type = "batch"`, fmt.Sprintf("type = \"batch\"\n  namespace = %q", namespace), 1)
	job, err := w.API.Jobs().ParseHCL(strings.ReplaceAll(hcl, "NAME", name), true)
	must.NoError(t, err)
	_, _, err = w.API.Jobs().Register(job, &api.WriteOptions{Namespace: namespace})
	must.NoError(t, err)
}

// eventuallyIn waits for the running workers of jobs, by namespace and name.
func (w *world) eventuallyIn(t *testing.T, want map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must.NoError(t, cluster.Until(ctx, fmt.Sprint(want), func(context.Context) error {
		got := map[string]int{}
		allocs, _, err := w.API.Allocations().List(&api.QueryOptions{Namespace: "*"})
		if err != nil {
			return err
		}
		for _, a := range allocs {
			if a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun {
				got[a.Namespace+"/"+a.JobID]++
			}
		}
		for name, n := range want {
			if got[name] != n {
				return fmt.Errorf("%v run", got)
			}
		}
		return nil
	}))
}

// eventuallyReads waits for the reason that a user reads of a job.
func (w *world) eventuallyReads(t *testing.T, d *daemon, id, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must.NoError(t, cluster.Until(ctx, "the reason of "+id, func(context.Context) error {
		s, err := d.status()
		if err != nil {
			return err
		}
		read := ""
		for _, j := range s.Jobs {
			if j.ID == id {
				read = j.Reason
			}
		}
		if !strings.HasPrefix(read, reason) {
			return fmt.Errorf("%q, not %q", read, reason)
		}
		return nil
	}))
}
