// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// fake is an autoscaler of jobs in two namespaces. The token of each tenant is
// "token of" and the namespace.
type fake struct {
	Controller
	http   config.HTTP
	away   error // of Nomad
	acl    error // what Identify returns
	events chan api.Event
	plan   func()      // what making a plan does besides
	slow   bool        // making a plan takes as long as it may
	status *api.Status // nil is that of two jobs
}

func (f *fake) Config() *config.Config { return &config.Config{Name: "fake", HTTP: f.http} }

func (f *fake) Leads() bool { return true }

func (f *fake) Registry() *prometheus.Registry { return prometheus.NewRegistry() }

func (f *fake) Status() *api.Status {
	if f.status != nil {
		return f.status
	}
	return &api.Status{
		Autoscaler: "fake", Ready: true,
		Jobs:       []api.JobStatus{{JobKey: identity.JobKey{Namespace: "red", ID: "red-job"}}, {JobKey: identity.JobKey{Namespace: "blue", ID: "blue-job"}}},
		Ineligible: []api.IneligibleJob{{JobKey: identity.JobKey{Namespace: "red", ID: "red-bad"}, Problems: []string{"p"}}, {JobKey: identity.JobKey{Namespace: "blue", ID: "blue-bad"}}},
		Blocked:    []api.BlockedJob{{JobKey: identity.JobKey{Namespace: "red", ID: "red-plain"}}, {JobKey: identity.JobKey{Namespace: "blue", ID: "blue-plain"}}},
		Pools:      []api.PoolStatus{{Name: "default", Capacity: 4, Use: []api.QueueUse{{Queue: "*", Used: 2}}, Problem: "decided 9 for red-job and blue-job"}},
	}
}

func (f *fake) Topology() ([]api.PoolTopology, error) {
	return []api.PoolTopology{{
		Pool: "default", Levels: []string{"node"}, Domains: []api.Domain{{Name: "n1", Nodes: 1, Amount: topology.Amount{Free: 3, Used: 2}}},
		Problems: []topology.Problem{{Level: "node", What: "of n1, which red-job and blue-job are on"}},
		Jobs: []api.JobSpread{
			{JobKey: identity.JobKey{Namespace: "red", ID: "red-job"}, Workers: 1}, {JobKey: identity.JobKey{Namespace: "blue", ID: "blue-job"}, Workers: 1},
		},
	}}, nil
}

func (f *fake) Propose(ctx context.Context, line string, _ map[string]config.Pool) ([]api.Proposal, error) {
	if f.slow {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if f.plan != nil {
		f.plan()
	}
	if line != "" {
		return nil, errors.New("it forgot red-job and blue-job")
	}
	return []api.Proposal{{Pool: "default", Jobs: []api.ProposedJob{
		{Job: "red/red-job", JobKey: identity.JobKey{Namespace: "red", ID: "red-job"}}, {Job: "blue/blue-job", JobKey: identity.JobKey{Namespace: "blue", ID: "blue-job"}},
	}, Ineligible: []api.IneligibleJob{
		{JobKey: identity.JobKey{Namespace: "red", ID: "red-bad"}}, {JobKey: identity.JobKey{Namespace: "blue", ID: "blue-bad"}},
	}}}, nil
}

func (f *fake) Pools() (configured, set map[string]string) {
	return map[string]string{"default": "fifo"}, nil
}

func (f *fake) ExternalPolicies() []string { return nil }

func (f *fake) Health() error { return nil }

func (f *fake) History(context.Context, identity.JobKey) ([]api.Change, error) { return nil, nil }

func (f *fake) JobDetail(identity.JobKey) *api.JobDetail { return &api.JobDetail{} }

func (f *fake) Series(key identity.JobKey) *api.Series {
	if key.ID == "red-job" || key.ID == "blue-job" {
		return &api.Series{Time: []float64{1}, Size: []int{2}, Step: []float64{3}}
	}
	return nil
}

func (f *fake) Timeline(time.Time) *api.Timeline {
	at := func(s int64, n int) api.SlotsAt { return api.SlotsAt{At: time.Unix(s, 0), Slots: n} }
	red, blue := identity.JobKey{Namespace: "red", ID: "red-job"}, identity.JobKey{Namespace: "blue", ID: "blue-job"}
	return &api.Timeline{
		Pools:  []api.PoolLine{{Pool: "default", Capacity: []api.SlotsAt{at(1, 8)}}},
		Jobs:   []api.JobLine{{JobKey: red, Pool: "default", Slots: []api.SlotsAt{at(1, 2), at(3, 4)}}, {JobKey: blue, Pool: "default", Slots: []api.SlotsAt{at(1, 1), at(2, 3), at(3, 1)}}},
		Events: []api.Event{{Type: "resize", Job: "red/red-job", Namespace: "red", ID: "red-job"}, {Type: "resize", Job: "blue/blue-job", Namespace: "blue", ID: "blue-job"}, {Type: "leader"}},
	}
}

func (f *fake) Nodes() ([]api.Node, error) {
	red, blue := identity.JobKey{Namespace: "red", ID: "red-job"}, identity.JobKey{Namespace: "blue", ID: "blue-job"}
	return []api.Node{{Name: "n1", Slots: 8, Sick: 1, Problems: []string{"of red-job and blue-job"}, Held: []api.Held{
		{JobKey: &red, Alloc: "red-alloc", Slots: 2, Elastic: true}, {JobKey: &blue, Alloc: "blue-alloc", Slots: 3, Elastic: true},
	}}}, nil
}

func (f *fake) Usage(context.Context, usage.Day) ([]usage.Row, error) {
	row := func(namespace, job string, held int64) usage.Row {
		return usage.Row{Key: usage.Key{Pool: "default", Queue: "*", Namespace: namespace, Job: job}, Counts: usage.Counts{Held: 1000 * held}}
	}
	return []usage.Row{row("red", "red-job", 2), row("blue", "blue-job", 3), row("red", "", 5), row("", "", 7)}, nil
}

func (f *fake) Subscribe() (<-chan api.Event, func()) { return f.events, func() {} }

func (f *fake) JobMetrics(sees func(identity.JobKey) bool) prometheus.Collector {
	return &fakeGauges{f, sees}
}

func (f *fake) Paused(key identity.JobKey) bool { return key.ID == "gone" }

func (f *fake) SetPaused(context.Context, string, identity.JobKey, bool) error { return nil }

func (f *fake) Identify(_ context.Context, token string) (string, error) {
	switch {
	case f.away != nil:
		return "", f.away
	case f.acl != nil:
		return "", f.acl
	case token == "token of red", token == "token of blue":
		return "token 1234-" + token[len("token of "):], nil
	}
	return "", cluster.ErrUnknownToken
}

func (f *fake) MayRead(_ context.Context, token string, one identity.JobKey) (bool, error) {
	return token == "token of "+one.Namespace, f.away
}

type fakeGauges struct {
	f    *fake
	sees func(identity.JobKey) bool
}

var fakeDesc = prometheus.NewDesc("kolo_job_workers", "Workers.", []string{"job_id"}, nil)

func (g *fakeGauges) Describe(ch chan<- *prometheus.Desc) { ch <- fakeDesc }

func (g *fakeGauges) Collect(ch chan<- prometheus.Metric) {
	for _, j := range g.f.Status().Jobs {
		if g.sees(j.JobKey) {
			ch <- prometheus.MustNewConstMetric(fakeDesc, prometheus.GaugeValue, 1, j.ID)
		}
	}
}
