// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim/forecast"
)

// Forecasts have a goroutine of their own and delay no round. They read the snapshots of the
// last decisions, and no decision reads them.

const (
	// forecastEvery is the shortest time between two forecasts. The time is also at least
	// forecastShare times the duration of the last forecast, so that forecasts use at most
	// a twentieth of one processor.
	forecastEvery = 5 * time.Second
	forecastShare = 19

	// forecastTimeout bounds a forecast on a machine that is too slow for its work.
	forecastTimeout = time.Minute

	// arrivalsKept is the number of arrivals that forecasts draw from.
	arrivalsKept = 30

	// lengthsKept is the number of complete jobs of a pool whose lengths forecasts draw
	// from.
	lengthsKept = 64
)

// forecasts makes one forecast after another.
func (c *Controller) forecasts(ctx context.Context) error {
	failed := map[string]string{} // by pool
	for {
		began := time.Now()
		expected := map[identity.JobKey]api.Expected{}
		for _, p := range c.toForecast() {
			of, err := p.expected(ctx)
			maps.Copy(expected, of)
			switch {
			case err == nil:
				delete(failed, p.pool)
			case ctx.Err() == nil && failed[p.pool] != err.Error():
				failed[p.pool] = err.Error()
				c.log.Warn("the forecast of starts failed", "pool", p.pool, "error", err)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.mu.Lock()
		if len(expected) > 0 || len(c.expected) > 0 {
			c.expected = expected
			c.status = report.Expect(c.status, c.expected)
		}
		c.mu.Unlock()
		pause(ctx, max(c.forecastEvery, forecastShare*time.Since(began)))
	}
}

// poolForecast is the forecast for a pool in which jobs wait.
type poolForecast struct {
	pool     string
	question *forecast.Question // nil if there can be none
	waiting  []identity.JobKey
	unknown  string // why there can be none
}

// toForecast returns the pools in which jobs wait.
func (c *Controller) toForecast() (out []*poolForecast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.view
	if v == nil {
		return nil
	}
	waiting := map[string][]identity.JobKey{}
	for i := range c.status.Jobs {
		if j := &c.status.Jobs[i]; j.Waits != nil {
			waiting[j.Pool] = append(waiting[j.Pool], j.JobKey)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		f := &poolForecast{pool: name, waiting: waiting[name]}
		out = append(out, f)
		switch p := c.policies[name]; {
		case p == nil || p.policy == nil || p.problem != "":
			f.unknown = "the policy does not decide"
		case p.last == nil:
			f.unknown = "the policy runs in a process of its own, which forecasts do not ask"
		case len(p.last.snap.Jobs) > forecast.MaxJobs:
			f.unknown = forecast.ErrTooMany.Error()
		default:
			f.question = c.question(v, name, p)
		}
	}
	return out
}

// question returns the present state of a pool and what is known of the lengths of its
// jobs, for a forecast. The caller holds c.mu.
func (c *Controller) question(v *cluster.View, pool string, p *poolPolicy) *forecast.Question {
	q := &forecast.Question{Snapshot: p.last.snap, Policy: p.last.policy}
	kinds := map[identity.JobKey]string{}
	var arrived, complete []int // indexes in v.Jobs
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		h := c.history.Jobs[j.Key]
		if j.Pool != pool || h == nil {
			continue
		}
		kinds[j.Key] = kindKey(j.Key, f)
		arrived = append(arrived, i)
		if h.Frozen {
			complete = append(complete, i)
		}
	}
	past := func(i int) *history.Job { return c.history.Jobs[v.Jobs[i].Key] }
	slices.SortStableFunc(arrived, func(a, b int) int { return past(a).FirstSeen.Compare(past(b).FirstSeen) })
	slices.SortStableFunc(complete, func(a, b int) int { return past(a).Completed.Compare(past(b).Completed) })
	curve := func(i int) speedup.Curve { return c.history.Curve(past(i), kinds[v.Jobs[i].Key]) }
	var took []float64
	for _, i := range complete[max(0, len(complete)-lengthsKept):] {
		known := curve(i)
		if length := past(i).Length(known, v.Facts[i].Slots); length > 0 {
			took = append(took, length/known.Speedup(max(1, v.Facts[i].Spec.Preferred)))
		}
	}
	length := func(key identity.JobKey) forecast.Length {
		return forecast.Length{Kind: c.history.Lengths(kinds[key]), Pool: took}
	}
	for _, key := range p.last.keys {
		q.Lengths = append(q.Lengths, length(key))
	}
	for _, i := range arrived[max(0, len(arrived)-arrivalsKept):] {
		j := &v.Jobs[i]
		fresh := &job{Job: &history.Job{FirstSeen: past(i).FirstSeen, Submitted: past(i).Submitted, Total: past(i).Total}}
		arrival := policyJob(j, &v.Facts[i], fresh, curve(i))
		arrival.Alike = c.history.Alike(groupOf(j, &v.Facts[i]))
		q.Arrivals = append(q.Arrivals, forecast.Arrival{Job: arrival, Length: length(j.Key)})
	}
	return q
}

var errTooSlow = errors.New("a forecast takes too long on this machine")

// expected makes the forecast. It returns the times at which the waiting jobs are expected to
// start, and the error of a forecast that failed. An error may name any job, so callers of
// the API learn only that there is one.
func (f *poolForecast) expected(ctx context.Context) (map[identity.JobKey]api.Expected, error) {
	made := time.Now()
	out := map[identity.JobKey]api.Expected{}
	starts := map[string]forecast.Start{}
	unknown := f.unknown
	var failed error
	if f.question != nil {
		ctx, cancel := context.WithTimeoutCause(ctx, forecastTimeout, errTooSlow)
		defer cancel()
		list, err := forecast.Starts(ctx, f.question)
		switch failed = err; {
		case errors.Is(err, errTooSlow):
			unknown = err.Error()
		case err != nil:
			unknown = "the forecast failed; the log of the autoscaler has the error"
		}
		for _, s := range list {
			starts[s.Job] = s
		}
	}
	for _, key := range f.waiting {
		e := api.Expected{Made: made, Unknown: unknown}
		if s, ok := starts[key.Namespace+"/"+key.ID]; ok {
			e.Earliest, e.Latest = at(s.Earliest), at(s.Latest)
			if s.Latest == 0 {
				e.Unknown = "too little is known of how long jobs take, or the start is too far away"
			}
			out[key] = e
		} else if unknown != "" {
			out[key] = e
		}
	}
	return out, failed
}

// at returns a time of a snapshot.
func at(seconds float64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000)).Round(time.Second)
}
