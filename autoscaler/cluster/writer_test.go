// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// watched is a cluster with job a of four workers, and what was seen of it.
func watched(t *testing.T) (*nomadtest.Cluster, *cluster.Watcher, cluster.Facts, planner.Action) {
	t.Helper()
	return watchedAs(t, "a")
}

// watchedAs is watched for a job with this name.
func watchedAs(t *testing.T, id string) (*nomadtest.Cluster, *cluster.Watcher, cluster.Facts, planner.Action) {
	t.Helper()
	nomad := nomadtest.New()
	nomad.AddNodes(2, 4)
	nomad.Register(nomadtest.Job{ID: id, Max: 8, GPUs: 1, CPU: 100, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{}}}})
	must.NoError(t, nomad.Scale(id, 4))
	server := httptest.NewServer(nomad)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	client, err := cluster.NewClient(config.Nomad{Address: server.URL, Namespace: "*", Timeout: 5 * time.Second})
	must.NoError(t, err)
	w := cluster.NewWatcher(client, time.Minute, hclog.NewNullLogger())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
	})

	var view *cluster.View
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		view, err = w.View(func(string) config.Pool { return config.Pool{Name: "default", Device: "gpu"} })
		if err == nil && (len(view.Jobs) != 1 || view.Facts[0].Running != 4) {
			err = errors.New("the job's workers are not seen yet")
		}
		return err
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	j := &view.Jobs[0]
	return nomad, w, view.Facts[0], planner.Action{Job: j.Key, Index: j.Index, Cause: planner.Shrink, From: 4, To: 2,
		Steps: []planner.Step{{Group: j.Groups[0].Name, From: 4, To: 2}}}
}

func yes() error { return nil }

func TestWriter_Writes(t *testing.T) {
	nomad, w, facts, act := watched(t)
	done, err := cluster.NewWriter(w, 1000, yes, nil).Apply(t.Context(), act, facts, nil)
	must.NoError(t, err)
	must.Eq(t, 1, done.Steps)
	counts, _ := nomad.Counts()
	must.Eq(t, 2, counts["a"])
}

// An autoscaler that does not lead writes nothing, nor does one that stops leading between
// two writes.
func TestWriter_AsksWhetherItLeadsBeforeEachWrite(t *testing.T) {
	nomad, w, facts, act := watched(t)
	_, before := nomad.Calls()
	_, err := cluster.NewWriter(w, 1000, func() error { return errors.New("the lock is another's") }, nil).Apply(t.Context(), act, facts, nil)
	must.ErrorContains(t, err, "the lock is another's")
	must.Eq(t, cluster.Stopped, cluster.Classify(err))
	_, after := nomad.Calls()
	must.Eq(t, before, after)

	asked := 0
	act.Steps = append(act.Steps, planner.Step{Group: act.Steps[0].Group, From: 2, To: 1})
	done, err := cluster.NewWriter(w, 1000, func() error {
		if asked++; asked > 1 {
			return errors.New("lost meanwhile")
		}
		return nil
	}, nil).Apply(t.Context(), act, facts, nil)
	must.ErrorContains(t, err, "lost meanwhile")
	must.Eq(t, 1, done.Steps)
	counts, _ := nomad.Counts()
	must.Eq(t, 2, counts["a"])
}

// If a worker completes after the plan was made, only a last read shows that: a completion
// does not change the index of the job.
func TestWriter_LooksOnceMore(t *testing.T) {
	nomad, w, facts, act := watched(t)
	_, before := nomad.Calls()
	must.True(t, nomad.Complete("a"))
	_, err := cluster.NewWriter(w, 1000, yes, nil).Apply(t.Context(), act, facts, nil)
	must.ErrorIs(t, err, cluster.ErrStale)
	_, after := nomad.Calls()
	must.Eq(t, before, after)
}

// The autoscaler does not write to a job that someone else has changed.
func TestWriter_WritesOnCondition(t *testing.T) {
	nomad, w, facts, act := watched(t)
	act.Index--
	_, err := cluster.NewWriter(w, 1000, yes, nil).Apply(t.Context(), act, facts, nil)
	must.Eq(t, cluster.Conflict, cluster.Classify(err))
	counts, _ := nomad.Counts()
	must.Eq(t, 4, counts["a"])
}

// Scaling copies the tag of a job's version, and Nomad keeps a job with a tagged version.
func TestWriter_UntagsAllVersions(t *testing.T) {
	nomad, w, facts, act := watched(t)
	writer := cluster.NewWriter(w, 1000, yes, nil)
	keep := planner.Action{Job: act.Job, Cause: planner.Keep}
	done, err := writer.Apply(t.Context(), keep, facts, nil)
	must.NoError(t, err)
	must.True(t, done.Tagged)
	for n := range 3 {
		must.NoError(t, nomad.Scale("a", n))
	}
	must.NoError(t, nomad.Scale("a", 4))

	t.Log("the tag of another version protects as well")
	facts.Version += 2
	done, err = writer.Apply(t.Context(), keep, facts, nil)
	must.NoError(t, err)
	must.True(t, done.Tagged)

	must.NoError(t, writer.Untag(t.Context(), act.Job))
	must.False(t, nomad.Tagged("a"))
	must.NoError(t, writer.Untag(t.Context(), act.Job), must.Sprint("there is nothing to take off"))
	nomad.Purge("a")
	must.NoError(t, writer.Untag(t.Context(), act.Job), must.Sprint("nor a job"))
}

// Nomad can't tag a job whose name contains a slash. The autoscaler does not treat that as
// an error, which it would repeat in each round: a scale protects the job once it is old.
func TestWriter_ProtectsAJobThatCannotBeTagged(t *testing.T) {
	nomad, w, facts, act := watchedAs(t, "team/a")
	done, err := cluster.NewWriter(w, 1000, yes, nil).Apply(t.Context(), planner.Action{Job: act.Job, Cause: planner.Keep}, facts, nil)
	must.NoError(t, err)
	must.False(t, done.Tagged)
	must.False(t, nomad.Tagged("team/a"))
}
