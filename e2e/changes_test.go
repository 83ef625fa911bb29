// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// silence is the longest time without a sign of progress: on a machine with other work, a
// process takes a minute to start.
const silence = 5 * time.Minute

// A change of the ring at one commit; see train/changes.py.
type change struct {
	Epoch int    `json:"epoch"`
	At    string `json:"at"`
	Size  int    `json:"size"`
}

// changes are those of a training that begins with two ranks: at each position in an
// epoch, twice in one, and at the end, where the last of them leaves no samples.
var changes = []change{
	{0, "first", 1},
	{1, "middle", 2},
	{2, "last", 1},
	{3, "first", 2},
	{3, "middle", 1},
	{4, "last", 2},
	{5, "between", 1}, // if the script commits after its last epoch
}

// shorter are other numbers for those of the scripts: training takes seconds, and each
// step is followed by a commit.
var shorter = []struct {
	needed bool
	number *regexp.Regexp
	with   string
}{
	{true, regexp.MustCompile(`(state\.epoch < |state\.epochs\()\d+`), "${1}5"},
	{true, regexp.MustCompile(`\b4800\b`), strconv.Itoa(fewSamples)},
	{false, regexp.MustCompile(`(state\.step % )\d+`), "${1}1"},
}

const fewSamples = 480

// steps are the lines of a log that say nothing about a failure.
var steps = regexp.MustCompile(`(?m)^\[.*\] (step |\{"kolo": "step").*\n`)

// Every script in the documentation trains on, with each sample used once an epoch, at
// whichever commit its ring changes.
func TestScriptsWhileRingsChange(t *testing.T) {
	t.Parallel()
	for _, s := range elasticScripts(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			framework, err := train.Named(s.framework)
			must.NoError(t, err)
			if err := framework.Check(root(t)); err != nil {
				t.Skipf("%s; make %s", err, s.framework)
			}
			for _, r := range shorter {
				must.True(t, !r.needed || r.number.MatchString(s.text), must.Sprintf("the script has no %s", r.number))
				s.text = r.number.ReplaceAllString(s.text, r.with)
			}
			path := t.TempDir() + "/train.py"
			must.NoError(t, os.WriteFile(path, []byte(s.text), 0o600))
			plan, err := json.Marshal(changes)
			must.NoError(t, err)

			framework.Script = "e2e/train/changes.py"
			job, err := train.Start(train.Launch{
				Root: root(t), Framework: framework, Hosts: []string{"a:1", "b:1"},
				Launcher: framework.Run(root(t), "-np", "2", "--min-np", "1", "--discovery-interval", "50ms", "--debounce", "50ms"),
				Args:     []string{"--framework=" + s.framework, "--changes=" + string(plan), path},
			})
			must.NoError(t, err)
			t.Cleanup(func() { must.NoError(t, job.Stop()) })
			waitEnd(t, job)
			text, err := os.ReadFile(job.Log())
			must.NoError(t, err)
			log := steps.ReplaceAllString(string(text), "")
			must.True(t, job.Exit().Success(), must.Sprintf("%s\n%s", job.Exit(), log))

			made := job.Record.Where("change", nil)
			for i, c := range changes {
				if i == len(made) && c.At == "between" {
					break
				}
				must.Greater(t, i, len(made), must.Sprintf("no change %+v\n%s", c, log))
				must.Eq(t, []int{c.Epoch, c.Size}, []int{made[i].Epoch, made[i].Size})
			}
			must.Eq(t, []int{2, 1, 2, 1, 2, 1}, job.Record.Sizes())
			must.Len(t, made[len(made)-1].Size, job.Record.Where("done", nil))
			must.NoError(t, job.Record.CheckSamples(fewSamples))
		})
	}
}

// A training that should stop after its epoch completes the whole epoch, even if its ring
// shrinks meanwhile.
func TestStopWhileRingShrinks(t *testing.T) {
	t.Parallel()
	for _, framework := range []train.Framework{train.Horovod, train.Torch} {
		t.Run(framework.Name, func(t *testing.T) {
			t.Parallel()
			const samples = 2400 // 100 steps
			job := onTwoHosts(t, framework, fmt.Sprintf("--samples=%d", samples), "--step-time=0.03", "--audit=1")
			begun := func() bool {
				last := job.Record.Last()
				return last.Epoch > 0 && last.Step%100 > 0 && last.Step%100 < 20 // long before its end
			}
			waitJob(t, job, begun)
			must.NoError(t, job.Finish())
			_, err := job.SetHosts("a:1")
			must.NoError(t, err)
			waitEnd(t, job)
			must.True(t, job.Exit().Success())
			must.NoError(t, job.Record.CheckSamples(samples))
			must.Eq(t, []int{2, 1}, job.Record.Sizes())
			shrunk := job.Record.Resizes()[0]
			must.Eq(t, shrunk.Before.Epoch, shrunk.After.Epoch, must.Sprint("the ring shrank between epochs"))
			must.NoError(t, job.Record.CheckConsecutive())
			must.NoError(t, job.Record.CheckUses())
		})
	}
}

// Rank 0 stays, and evaluates for longer than a leaving host may take. The host is ended,
// and training continues with rank 0.
func TestRankZeroEvaluatesWhileAHostLeaves(t *testing.T) {
	t.Parallel()
	for _, framework := range []train.Framework{train.Horovod, train.Torch} {
		t.Run(framework.Name, func(t *testing.T) {
			t.Parallel()
			over := filepath.Join(t.TempDir(), "over")
			job := onTwoHosts(t, framework, "--fault=evaluate", "--fault-step=20", "--fault-rank=0", "--fault-end="+over)
			logged := func(text string) bool {
				log, err := os.ReadFile(job.Log())
				must.NoError(t, err)
				return strings.Contains(string(log), text)
			}
			waitJob(t, job, func() bool { return logged("fault: evaluate at step 20 on rank 0") })
			_, err := job.SetHosts("a:1")
			must.NoError(t, err)
			waitJob(t, job, func() bool {
				return logged("(kill_timeout); its slots are stopped (rank 1 of ring 1, host b, slot 0)") && len(job.Processes()) == 1
			})
			pause(t, 3*elastic.IdleTime) // rank 0 uses no CPU time
			must.NoError(t, os.WriteFile(over, nil, 0o600))
			waitJob(t, job, func() bool { return job.Record.CheckSize(1, time.Time{}) == nil })
			must.Len(t, 1, job.Record.PIDs(0), must.Sprint("processes that were rank 0"))
			must.False(t, logged("is killed"))
			must.NoError(t, job.Record.CheckRollbacks(1))
			must.NoError(t, job.Finish())
			waitEnd(t, job)
			must.True(t, job.Exit().Success())
		})
	}
}

// onTwoHosts starts a training of two ranks, each on a host of its own that may leave.
func onTwoHosts(t *testing.T, framework train.Framework, args ...string) *train.Job {
	t.Helper()
	if err := framework.Check(root(t)); err != nil {
		t.Skipf("%s; make %s", err, framework.Name)
	}
	job, err := train.Start(train.Launch{
		Root: root(t), Framework: framework, Hosts: []string{"a:1", "b:1"}, Args: args,
		Launcher: framework.Run(root(t), "-np", "2", "--min-np", "1", "--discovery-interval", "50ms"),
	})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, job.Stop()) })
	return job
}

// waitEnd waits until a job has ended, as long as its script records something.
func waitEnd(t *testing.T, job *train.Job) {
	t.Helper()
	waitJob(t, job, func() bool {
		select {
		case <-job.Ended():
			must.NoError(t, job.Update())
			return true
		default:
			return false
		}
	})
}

// waitJob waits for what shows in a job's record, as long as its script records something.
func waitJob(t *testing.T, job *train.Job, done func() bool) {
	t.Helper()
	var idle cluster.Idle[int]
	for ; ; time.Sleep(100 * time.Millisecond) {
		must.NoError(t, job.Update())
		if done() {
			return
		}
		if idle.For(len(job.Record), time.Now()) > silence {
			log, err := os.ReadFile(job.Log())
			t.Fatalf("nothing was recorded for %s (%v)\n%s", silence, err, steps.ReplaceAllString(string(log), ""))
		}
	}
}
