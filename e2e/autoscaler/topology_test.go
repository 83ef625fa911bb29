// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

const racksConfiguration = `
nomad {
  address = "%s"
  resync  = "5s"
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold = "1s"
  tick = "2s"
}
pool "default" {
  cpu_slot = 1000
  policy "elastic-fifo" {}
  topology {
    levels = ["meta.rack"]
  }
}
`

// TestTopology_AJobIsWrittenOnce expands a job to one group per rack, trains it on
// two racks, and runs it again when there is a third. Nomad validates it each time,
// and its workers stay.
func TestTopology_AJobIsWrittenOnce(t *testing.T) {
	if os.Getenv(givenNomad) != "" {
		t.Skip("requires three clients, whose metadata it sets")
	}
	w := start(t)
	w.rack(t, 0, "r1")
	w.rack(t, 1, "r2")
	d := w.agentWith(t, "kolo", fmt.Sprintf(racksConfiguration, w.Address))
	d.waitForRacks("r1 1", "r2 1", " 1")
	out, err := d.kolo("topology")
	must.NoError(t, err)
	t.Log(out)
	must.StrContains(t, out, "1 node without a value of meta.rack")

	job, expanded, vars := filepath.Join(w.dir, "train.nomad.hcl"), filepath.Join(w.dir, "racks.nomad.hcl"), filepath.Join(w.dir, "racks.vars.hcl")
	must.NoError(t, os.WriteFile(job, []byte(strings.ReplaceAll(strings.ReplaceAll(jobHCL, "NAME", "train"), "kolo { KOLO }", "kolo {}")), 0o600))
	must.NoError(t, os.WriteFile(expanded, []byte(d.printed("topology", "expand", "-level", "meta.rack", job)), 0o600))
	list := func() {
		must.NoError(t, os.WriteFile(vars, []byte(d.printed("topology", "vars", "-level", "meta.rack")), 0o600))
	}
	list()
	w.nomad(t, "job", "validate", job)
	w.nomad(t, "job", "validate", "-var-file", vars, expanded)

	t.Log("it has no counts of its own: kolo starts it, where the groups may run")
	w.nomad(t, "job", "run", "-detach", "-var-file", vars, expanded)
	w.waitForGroups(t, "train", map[string]int{"workers-r1": 4, "workers-r2": 4})
	waitFor(t, time.Minute, "kolo knows that the job is on two racks", func() bool {
		jobs := d.topology()[0].Jobs
		return len(jobs) == 1 && jobs[0].Level == "meta.rack" &&
			reflect.DeepEqual(jobs[0].Parts, []koloapi.JobShare{{Path: []string{"r1"}, Workers: 4}, {Path: []string{"r2"}, Workers: 4}})
	})
	before := w.allocations(t, "train")

	t.Log("a rack is added")
	w.rack(t, 2, "r3")
	d.waitForRacks("r1 1", "r2 1", "r3 1")
	list()
	w.nomad(t, "job", "validate", "-var-file", vars, expanded)
	w.nomad(t, "job", "run", "-detach", "-preserve-counts", "-var-file", vars, expanded)
	w.waitForGroups(t, "train", map[string]int{"workers-r1": 4, "workers-r2": 4, "workers-r3": 4})
	after := w.allocations(t, "train")
	for id := range before {
		must.MapContainsKey(t, after, id, must.Sprint("a worker was replaced"))
	}
	out, err = d.kolo("topology")
	must.NoError(t, err)
	t.Log(out)
}

// TestTopology_ExpandReportsWhatItCannotWrite writes the result to a full device.
func TestTopology_ExpandReportsWhatItCannotWrite(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kolo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./autoscaler/cmd/kolo")
	build.Dir = root(t)
	out, err := build.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	job := filepath.Join(t.TempDir(), "train.nomad.hcl")
	must.NoError(t, os.WriteFile(job, []byte(strings.ReplaceAll(strings.ReplaceAll(jobHCL, "NAME", "train"), "kolo { KOLO }", "kolo {}")), 0o600))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	cmd := exec.CommandContext(t.Context(), binary, "topology", "expand", "-level", "meta.rack", job)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &said
	var exit *exec.ExitError
	must.True(t, errors.As(cmd.Run(), &exit))
	must.Eq(t, 1, exit.ExitCode())
	must.StrContains(t, said.String(), "no space left on device")
}

// rack sets the rack of a client, as nomad node meta apply does.
func (w *world) rack(t *testing.T, node int, rack string) {
	t.Helper()
	_, err := w.API.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: w.Nodes[node].ID, Meta: map[string]*string{"rack": &rack}}, nil)
	must.NoError(t, err)
}

// nomad runs a command of Nomad that must succeed.
func (w *world) nomad(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), cluster.Binary(root(t)), args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+w.Address, "NOMAD_TOKEN="+w.Token)
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprintf("nomad %s: %s", strings.Join(args, " "), out))
	t.Logf("nomad %s: %s", strings.Join(args, " "), out)
}

// printed returns what a command prints to the standard output.
func (d *daemon) printed(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(d.binary, args...)
	cmd.Env = append(os.Environ(), "KOLO_ADDR="+d.address, "NOMAD_TOKEN="+d.token)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	must.NoError(d.t, err, must.Sprintf("kolo %s: %s", strings.Join(args, " "), said.String()))
	return string(out)
}

func (d *daemon) topology() []koloapi.PoolTopology {
	d.t.Helper()
	var out []koloapi.PoolTopology
	must.NoError(d.t, json.Unmarshal([]byte(d.printed("topology", "-json")), &out))
	return out
}

// waitForRacks waits until the autoscaler knows these racks, each with its number
// of nodes.
func (d *daemon) waitForRacks(want ...string) {
	d.t.Helper()
	var got []string
	waitFor(d.t, time.Minute, fmt.Sprint("racks ", want), func() bool {
		text, err := d.kolo("topology", "-json")
		var pools []koloapi.PoolTopology
		if err != nil || json.Unmarshal([]byte(text), &pools) != nil || len(pools) != 1 {
			return false
		}
		got = nil
		for _, r := range pools[0].Domains {
			got = append(got, fmt.Sprint(r.Name, " ", r.Nodes))
		}
		return strings.Join(got, ",") == strings.Join(want, ",")
	})
}

// waitForGroups waits for the counts of a job's groups, and its running workers.
func (w *world) waitForGroups(t *testing.T, job string, want map[string]int) {
	t.Helper()
	all := 0
	for _, n := range want {
		all += n
	}
	waitFor(t, 2*time.Minute, fmt.Sprint(want), func() bool {
		j, _, err := w.API.Jobs().Info(job, nil)
		if err != nil || len(j.TaskGroups) != len(want) {
			return false
		}
		for _, g := range j.TaskGroups {
			if *g.Count != want[*g.Name] {
				return false
			}
		}
		running, err := w.Running(t.Context(), job)
		return err == nil && len(running) == all
	})
}

// allocations returns the ids of a job's running workers.
func (w *world) allocations(t *testing.T, job string) map[string]bool {
	t.Helper()
	running, err := w.Running(t.Context(), job)
	must.NoError(t, err)
	out := map[string]bool{}
	for _, a := range running {
		out[a.ID] = true
	}
	return out
}
