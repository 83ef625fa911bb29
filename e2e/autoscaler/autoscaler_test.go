// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// TestAutoscaler runs all scenarios on one cluster, one after another.
func TestAutoscaler(t *testing.T) {
	w := start(t)
	for _, scenario := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"what is taken for granted of Nomad", w.contract},
		{"jobs share the cluster, and every policy drives it", w.everyPolicy},
		{"users act while it runs", w.users},
		{"room for others", w.room},
		{"the node of a group is lost", w.movedGroup},
		{"mistakes", w.mistakes},
		{"jobs that have waited are collected when they are over", w.parked},
		{"policies that misbehave", w.hostilePolicies},
		{"a job that reports false times", w.liar},
		{"Nomad fails and is slow", w.failingNomad},
		{"the leader is killed in the middle of resizes", w.killedLeaders},
	} {
		if !t.Run(scenario.name, scenario.run) {
			w.purgeAll(t) // the next scenario must not be affected
		}
	}
}

func (w *world) everyPolicy(t *testing.T) {
	d := w.agent(t, "one", w.Address)
	waitFor(t, 30*time.Second, "leadership", d.leads)

	w.submit(t, "a", "min = 1")
	w.eventually(t, 30*time.Second, map[string]int{"a": slots})
	w.firstCount(t, "a")

	w.submit(t, "b", "min = 2")
	w.submit(t, "c", "min = 2\npreemptible = true")
	w.eventually(t, time.Minute, map[string]int{"a": 4, "b": 4, "c": 4})

	for _, name := range builtin.Policies.Names() {
		out, err := d.kolo("policy", "set", name)
		must.NoError(t, err, must.Sprint(out))
		time.Sleep(3 * time.Second) // its decisions, and the writes they cause
		s, err := d.status()
		must.NoError(t, err)
		must.Eq(t, name, s.Pools[0].Policy)
		must.Eq(t, "", s.Pools[0].Problem)
	}
	out, err := d.kolo("policy", "set", "-reset")
	must.NoError(t, err, must.Sprint(out))
	w.eventually(t, time.Minute, map[string]int{"a": 4, "b": 4, "c": 4})

	for _, args := range [][]string{{"status"}, {"status", "-json"}, {"job", "a"}, {"plan"}, {"plan", "-policy", "fifo"}, {"policy", "get"}} {
		out, err := d.kolo(args...)
		must.NoError(t, err, must.Sprint(out))
		must.StrContains(t, out, map[string]string{"policy": "elastic-fifo"}[args[0]])
	}
	w.neverTooMuch(t, "a", "b", "c")
	w.purge(t, "a", "b", "c")
}

// firstCount logs how long a job took from its arrival to the first count that
// was written for it, by Nomad's clock.
func (w *world) firstCount(t *testing.T, job string) {
	t.Helper()
	history, _, err := w.API.Jobs().ScaleStatus(job, nil)
	must.NoError(t, err)
	versions, _, _, err := w.API.Jobs().Versions(job, false, nil)
	must.NoError(t, err)
	events, first := history.TaskGroups["workers"].Events, versions[len(versions)-1]
	must.SliceNotEmpty(t, events)
	must.Eq(t, 0, *first.Version)
	t.Logf("from the arrival of a job to its first count written: %s", time.Duration(int64(events[len(events)-1].Time)-*first.SubmitTime))
}

func (w *world) users(t *testing.T) {
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)
	w.submit(t, "a", "min = 1")
	w.eventually(t, 30*time.Second, map[string]int{"a": slots})
	w.firstCount(t, "a")

	t.Log("a user scales by hand: the wish holds for a while")
	_, _, err := w.API.Jobs().Scale("a", "workers", new(3), "by hand", false, nil, nil)
	must.NoError(t, err)
	w.eventually(t, 20*time.Second, map[string]int{"a": 3})
	time.Sleep(2 * time.Second)
	w.eventually(t, time.Second, map[string]int{"a": 3})
	w.eventually(t, 30*time.Second, map[string]int{"a": slots})

	t.Log("a user pauses the job")
	out, err := d.kolo("pause", "a")
	must.NoError(t, err, must.Sprint(out))
	w.submit(t, "b", "min = 2")
	time.Sleep(3 * time.Second)
	w.eventually(t, time.Second, map[string]int{"a": slots, "b": 0})
	out, err = d.kolo("resume", "a")
	must.NoError(t, err, must.Sprint(out))
	w.eventually(t, 30*time.Second, map[string]int{"a": 6, "b": 6})

	t.Log("a user registers the job again: its file says count = 0")
	w.submit(t, "a", "min = 1")
	w.eventually(t, time.Minute, map[string]int{"a": 6, "b": 6})

	if len(w.Nodes) > 1 {
		w.drain(t)
	}

	t.Log("a user stops a job, and purges the other")
	_, _, err = w.API.Jobs().Deregister("b", false, nil)
	must.NoError(t, err)
	w.eventually(t, time.Minute, map[string]int{"a": slots})
	w.purge(t, "a", "b")
}

func (w *world) drain(t *testing.T) {
	t.Log("a user drains a node")
	node := w.Nodes[0]
	_, err := w.API.Nodes().UpdateDrain(node.ID, &api.DrainSpec{Deadline: 5 * time.Second, IgnoreSystemJobs: true}, false, nil)
	must.NoError(t, err)
	left := slots - slots/len(w.Nodes)
	w.eventually(t, time.Minute, map[string]int{"a": left / 2, "b": left / 2})
	_, err = w.API.Nodes().UpdateDrain(node.ID, nil, true, nil)
	must.NoError(t, err)
	w.eventually(t, time.Minute, map[string]int{"a": 6, "b": 6})
}

// movedGroup runs a job of two groups, each on a node of its own, one of which is
// lost.
func (w *world) movedGroup(t *testing.T) {
	if os.Getenv(givenNomad) != "" {
		t.Skip("needs nodes of its own, to kill one")
	}
	config := strings.Replace(fmt.Sprintf(configuration, w.Address), "planner {", "planner {\n  placement_timeout = \"3s\"", 1)
	d := w.agentWith(t, "one", config)
	waitFor(t, time.Minute, "leadership", d.leads)
	block := strings.ReplaceAll(jobHCL, "kolo { KOLO }", "kolo {\nmax = 4\n}")
	first, last := strings.Index(block, `  group "workers"`), strings.LastIndex(block, "}")
	group := func(name string, node int) string {
		at := fmt.Sprintf("group %q {\n    constraint {\n      attribute = \"${node.unique.name}\"\n      value     = %q\n    }", name, w.Nodes[node].Name)
		return strings.Replace(block[first:last], `group "workers" {`, at, 1)
	}
	// Keys of the job are written in one group.
	second := strings.Replace(group("g1", 1), "kolo {\nmax = 4\n}", "kolo {}", 1)
	w.register(t, strings.ReplaceAll(block[:first]+group("g0", 0)+second+"}\n", "NAME", "a"))
	groups := func(want ...int) {
		t.Helper()
		waitFor(t, time.Minute, fmt.Sprint("groups of ", want), func() bool {
			running, err := w.Running(t.Context(), "a")
			if err != nil {
				return false
			}
			got := make([]int, 2)
			for _, a := range running {
				got[map[string]int{"g0": 0, "g1": 1}[a.TaskGroup]]++
			}
			j, _, err := w.API.Jobs().Info("a", nil)
			return err == nil && got[0] == want[0] && got[1] == want[1] && *j.TaskGroups[0].Count == want[0] && *j.TaskGroups[1].Count == want[1]
		})
	}
	groups(4, 0)
	// Not a drain: Nomad lets workers run that it has no other place for.
	node := w.Nodes[0]
	must.NoError(t, node.Kill())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		must.NoError(t, node.Start(ctx))
	})
	groups(0, 4)
	out, err := d.kolo("job", "a")
	must.NoError(t, err, must.Sprint(out))
	must.StrContains(t, out, "another group has room for 4")
	w.purge(t, "a")
}

func (w *world) mistakes(t *testing.T) {
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)
	w.submit(t, "bad", "mim = 2\nweight = -1")
	w.submit(t, "good", "min = 1")
	w.eventually(t, 30*time.Second, map[string]int{"good": slots, "bad": 0})
	waitFor(t, 20*time.Second, "a scaling event on the job", func() bool {
		s, _, err := w.API.Jobs().ScaleStatus("bad", nil)
		if err != nil || len(s.TaskGroups["workers"].Events) == 0 {
			return false
		}
		e := s.TaskGroups["workers"].Events[0]
		return e.Error && strings.Contains(e.Message, "did you mean min?") && strings.Contains(e.Message, "-1 is not above 0")
	})
	out, err := d.kolo("status")
	must.NoError(t, err)
	must.StrContains(t, out, "Kolo does not scale bad because of errors")

	t.Log("a configuration with a mistake does not start, and says where")
	path := filepath.Join(t.TempDir(), "bad.hcl")
	must.NoError(t, os.WriteFile(path, []byte("http {\n  prot = 80\n}\n"), 0o600))
	text, err := exec.Command(w.binary, "agent", "-config", path).CombinedOutput()
	must.Error(t, err)
	must.StrContains(t, string(text), path+":2:")

	t.Log("a token that may not write kolo/* may not pause")
	stranger, _, err := w.API.ACLTokens().Create(&api.ACLToken{Name: "stranger", Type: "client", Policies: []string{"none"}}, nil)
	must.NoError(t, err)
	d.token = stranger.SecretID
	out, err = d.kolo("pause")
	must.Error(t, err, must.Sprint(out))
	must.StrContains(t, out, "may not write the variable kolo/overrides")
	w.purge(t, "bad", "good")
}

// parked makes jobs wait until they are protected from garbage collection, and
// checks that Nomad still collects them when they have ended.
func (w *world) parked(t *testing.T) {
	if w.before(t, "1.9.0") {
		t.Skip("Nomad before 1.9 has no version tags: a job that waits is scaled to the same count after two hours")
	}
	capability := "tag-job-version"
	if w.before(t, "1.11.2") {
		capability = "submit-job" // which had no parts yet
	}
	_, err := w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: "tags", Rules: fmt.Sprintf(`namespace "default" { capabilities = [%q] }`, capability)}, nil)
	must.NoError(t, err)
	token, _, err := w.API.ACLTokens().Create(&api.ACLToken{Name: "tags", Type: "client", Policies: []string{"kolo", "tags"}}, nil)
	must.NoError(t, err)
	tagging := *w
	tagging.token = token.SecretID
	d := tagging.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)

	done := filepath.Join(w.dir, "all-done")
	w.submit(t, "full", fmt.Sprint("min = ", slots))
	w.eventually(t, time.Minute, map[string]int{"full": slots})
	hcl := strings.ReplaceAll(strings.ReplaceAll(jobHCL, "NAME", "starts"), "kolo { KOLO }", "kolo {}")
	hcl = strings.ReplaceAll(hcl, "/bin/sleep", "/bin/sh")
	w.register(t, strings.ReplaceAll(hcl, `["100000"]`, fmt.Sprintf(`["-c", "while [ ! -e %s ]; do sleep 0.1; done"]`, done)))
	w.submit(t, "stops", "min = 1")
	waitFor(t, time.Minute, "two jobs that wait", func() bool {
		s, err := d.status()
		return err == nil && s.Pools[0].Waiting == 2
	})

	// They are protected a minute from now, which is an hour before they are
	// taken for garbage: that hour made longer, now.
	text, err := os.ReadFile(d.config)
	must.NoError(t, err)
	longer := strings.Replace(string(text), "planner {", "planner {\n  gc_protection = \"3h\"", 1)
	must.NoError(t, os.WriteFile(d.config, []byte(longer), 0o600))
	must.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	tagged := func(job string) bool {
		versions, _, _, err := w.API.Jobs().Versions(job, false, nil)
		return err == nil && slices.ContainsFunc(versions, func(v *api.Job) bool { return v.VersionTag != nil })
	}
	waitFor(t, time.Minute, "both to be tagged", func() bool { return tagged("starts") && tagged("stops") })
	must.NoError(t, w.API.System().GarbageCollect())
	for _, job := range []string{"starts", "stops"} {
		_, err := w.count(job)
		must.NoError(t, err, must.Sprint("it was collected while it waited"))
	}

	t.Log("one is stopped while it waits")
	_, _, err = w.API.Jobs().Deregister("stops", false, nil)
	must.NoError(t, err)
	w.collected(t, "stops")

	t.Log("the other starts, and completes")
	w.purge(t, "full")
	w.eventually(t, time.Minute, map[string]int{"starts": slots})
	must.NoError(t, os.WriteFile(done, nil, 0o600))
	w.collected(t, "starts")
}

func (w *world) before(t *testing.T, version string) bool {
	t.Helper()
	is, err := w.Before(version)
	must.NoError(t, err)
	return is
}

// collected makes Nomad collect garbage until a job is gone.
func (w *world) collected(t *testing.T, job string) {
	t.Helper()
	waitFor(t, time.Minute, job+" to be collected", func() bool {
		if err := w.API.System().GarbageCollect(); err != nil {
			return false
		}
		_, _, err := w.API.Jobs().Info(job, nil)
		var resp api.UnexpectedResponseError
		return errors.As(err, &resp) && resp.StatusCode() == http.StatusNotFound
	})
}

func waitFor(t *testing.T, within time.Duration, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), within, fmt.Errorf("not within %s", within))
	defer cancel()
	must.NoError(t, cluster.Until(ctx, what, func(context.Context) error {
		if !check() {
			return errors.New("not yet")
		}
		return nil
	}))
}
