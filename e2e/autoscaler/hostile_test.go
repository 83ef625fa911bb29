// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin"
)

// kindEnv makes the test binary a policy that misbehaves in the given way.
const kindEnv = "KOLO_TEST_POLICY"

func TestMain(m *testing.M) {
	if kind := os.Getenv(kindEnv); kind != "" {
		plugin.Serve(hostile(kind))
		return
	}
	m.Run()
}

type hostile string

func (h hostile) Name() string { return string(h) }

// Allocate gives every job its minimum, with one exception.
func (h hostile) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: s.Jobs[i].Min, Reason: "least"})
	}
	all := func(n int) {
		for i := range d.Allocations {
			d.Allocations[i].Count = n
		}
	}
	switch h {
	case "greedy":
		all(s.Jobs[0].Max)
	case "negative":
		all(-1)
	case "unbounded":
		all(s.Jobs[0].Max + 1)
	case "huge":
		all(math.MaxInt)
	case "stranger":
		d.Allocations[0].Job = "default/somebody-else"
	case "forgetful":
		d.Allocations = d.Allocations[1:]
	case "timeless":
		d.RequeueAt = math.NaN()
	case "flood":
		d.State = make([]byte, 64<<20)
	case "panics":
		panic("a bug in the policy")
	case "dies":
		os.Exit(3) //nolint:forbidigo // a program that dies is what is tested
	case "hangs":
		time.Sleep(time.Hour)
	case "noisy":
		fmt.Println("this is no answer")
		fmt.Fprintln(os.Stderr, "nor is this")
	}
	return d
}

// scripts are programs that are no policies at all.
var scripts = map[string]string{
	"ends":    "exit 7",
	"garbage": "head -c 4096 /dev/urandom; echo",
	"newer":   "echo '1|99|unix|/nowhere|grpc|'; sleep 60",
}

// put writes the program of a policy.
func put(t *testing.T, dir, name, kind string) {
	t.Helper()
	text := scripts[kind]
	if text == "" {
		self, err := os.Executable()
		must.NoError(t, err)
		text = fmt.Sprintf("%s=%s exec %s", kindEnv, kind, self)
	}
	// Not written over: it may be running.
	path := filepath.Join(dir, plugin.Prefix+name)
	must.NoError(t, os.WriteFile(path+".new", []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	must.NoError(t, os.Rename(path+".new", path))
}

// hostilePolicies runs the agent with policies, each of which breaks a different
// rule.
func (w *world) hostilePolicies(t *testing.T) {
	dir := t.TempDir()
	refused := map[string]string{
		"greedy":    "they need 12 slots, and 0 are left",
		"negative":  "-1 workers for job default/",
		"unbounded": "13 workers for job default/",
		"huge":      "9223372036854775807 workers for job default/",
		"stranger":  "it did not answer for job default/",
		"forgetful": "it did not answer for job default/",
		"timeless":  "it wants to be asked again at NaN",
		"flood":     "received message larger than max",
		"panics":    "the program ended instead of answering",
		"dies":      "the program ended instead of answering",
		"hangs":     "no answer within 3s; it was killed",
		"ends":      "Failed to read any lines from plugin's stdout",
		"garbage":   "Unrecognized remote plugin message",
		"newer":     "incompatible API version with plugin. Plugin version: 99",
	}
	d := w.agentWith(t, "one", fmt.Sprintf("policy_dir = %q\n", dir)+fmt.Sprintf(configuration, w.Address))
	waitFor(t, time.Minute, "leadership", d.leads)
	w.submit(t, "a", "min = 1")
	w.submit(t, "b", "min = 2")
	even := map[string]int{"a": 6, "b": 6}
	w.eventually(t, time.Minute, even)
	w.firstCount(t, "a")

	for kind, reason := range refused {
		put(t, dir, kind, kind) // found without a restart
		before := d.refusals(t)
		out, err := d.kolo("policy", "set", kind)
		must.NoError(t, err, must.Sprint(out))
		if kind == "hangs" {
			start := time.Now()
			out, err = d.kolo("pause", "b") // the agent is not held up
			must.NoError(t, err, must.Sprint(out))
			out, err = d.kolo("resume", "b")
			must.NoError(t, err, must.Sprint(out))
			t.Logf("while a policy hangs, a pause and its end took %s", time.Since(start))
		}
		waitFor(t, 20*time.Second, kind+" to be refused", func() bool {
			s, err := d.status()
			return err == nil && s.Pools[0].Policy == kind && strings.Contains(s.Pools[0].Problem, reason)
		})
		must.StrContains(t, d.log(), reason)
		must.Greater(t, before, d.refusals(t))
		w.eventually(t, time.Second, even)
	}

	t.Log("a better program is taken at once, and what it prints does no harm")
	put(t, dir, "newer", "noisy")
	out, err := d.kolo("policy", "set", "newer")
	must.NoError(t, err, must.Sprint(out))
	w.eventually(t, time.Minute, map[string]int{"a": 1, "b": 2})
	s, err := d.status()
	must.NoError(t, err)
	must.Eq(t, "", s.Pools[0].Problem)

	out, err = d.kolo("policy", "set", "-reset")
	must.NoError(t, err, must.Sprint(out))
	w.eventually(t, time.Minute, even)
	w.neverTooMuch(t, "a", "b")
	w.purge(t, "a", "b")
}

var refusedLine = regexp.MustCompile(`(?m)^kolo_decisions_refused_total\{pool="default"\} (\S+)$`)

// refusals returns how many decisions the agent has refused.
func (d *daemon) refusals(t *testing.T) float64 {
	t.Helper()
	resp, err := http.Get(d.address + "/v1/metrics")
	must.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	m := refusedLine.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	must.NoError(t, err)
	return n
}
