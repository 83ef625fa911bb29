// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// writersAtOnce is how many jobs are written to at the same time.
const writersAtOnce = 16

// jobGC is how long Nomad keeps a dead job by default (job_gc_threshold).
const jobGC = 4 * time.Hour

// round looks, decides, plans, and writes where this agent leads. It returns
// when to make the next one at the latest.
func (a *Agent) round(ctx context.Context) (time.Time, error) {
	view, err := a.watcher.View(a.Config().Pool)
	if err != nil {
		return time.Time{}, err
	}
	drifted := a.drifted(view)
	histories := a.histories(ctx, view, drifted)

	a.mu.Lock()
	now := time.Now()
	wake := now.Add(a.cfg.Planner.Tick)
	if !a.watcher.LastAnswer().IsZero() && now.Sub(a.watcher.LastAnswer()) > staleAfter+a.cfg.Nomad.Resync {
		a.log.Debug("deciding on an old view", "age", now.Sub(a.watcher.LastAnswer()))
	}
	a.remember(view, histories, now)
	a.makeRoom(view)
	wants := make([]planner.Want, len(view.Jobs))
	for i := range wants {
		wants[i].Count = view.Jobs[i].Count()
	}
	for _, name := range poolNames(view) {
		if at := a.decide(view, name, wants, now); !at.IsZero() && at.After(now) && at.Before(wake) {
			wake = at
		}
	}
	plan := planner.Make(&view.Cluster, wants, now, a.cfg.Planner.Options)
	if !plan.Wake.IsZero() && plan.Wake.Before(wake) {
		wake = plan.Wake
	}
	for _, j := range view.Jobs {
		if at := a.ledger.Jobs[j.Key].retryAt; at.After(now) && at.Before(wake) {
			wake = at
		}
	}
	lead := a.leading()
	a.status = a.describe(view, wants, plan, lead, now)
	a.lastView, a.decided = view, now
	untold := a.untold
	a.untold = nil
	a.mu.Unlock()
	for _, e := range untold {
		a.event(e)
	}

	if lead {
		a.write(ctx, view, plan)
		a.untag(ctx, view)
		a.report(ctx, view.Aside)
	}
	return wake, nil
}

// staleAfter is how old a view may be before it is worth a word.
const staleAfter = time.Minute

func poolNames(v *cluster.View) []string {
	names := map[string]bool{}
	for i := range v.Nodes {
		names[v.Nodes[i].Pool] = true
	}
	for i := range v.Jobs {
		names[v.Jobs[i].Pool] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// drifted are the jobs whose counts are not what was last seen, though the
// job is the same and this agent did not write them.
func (a *Agent) drifted(v *cluster.View) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []int
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		r := a.ledger.Jobs[j.Key]
		if r != nil && r.Created == f.Created && r.LastIndex != f.Changed && !maps.Equal(r.Counts, counts(j)) {
			out = append(out, i)
		}
	}
	return out
}

func (a *Agent) histories(ctx context.Context, v *cluster.View, index []int) map[int][]cluster.Change {
	if len(index) == 0 {
		return nil
	}
	out := map[int][]cluster.Change{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writersAtOnce)
	for _, i := range index {
		g.Go(func() error {
			h, err := a.client.History(ctx, v.Jobs[i].Key)
			if err != nil {
				a.log.Warn("cannot tell whether a count was set by hand", "job", v.Jobs[i].Key, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			out[i] = h
			return nil
		})
	}
	_ = g.Wait() // no job's history fails the others
	return out
}

func counts(j *planner.Job) map[string]int {
	out := make(map[string]int, len(j.Groups))
	for _, g := range j.Groups {
		out[g.Name] = g.Count
	}
	return out
}

// remember brings the ledger up to date and gives the planner what only the
// past tells. The caller holds a.mu.
func (a *Agent) remember(v *cluster.View, histories map[int][]cluster.Change, now time.Time) {
	dt := time.Duration(0)
	if !a.lastTime.IsZero() {
		dt = min(max(0, now.Sub(a.lastTime)), time.Minute)
	}
	a.lastTime = now
	known := len(a.ledger.Jobs) > 0
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		r := a.ledger.Jobs[j.Key]
		if r == nil || r.Created != f.Created {
			r = &Record{Created: f.Created, FirstSeen: now, Counts: counts(j)}
			r.estimate(f, now)
			a.ledger.Jobs[j.Key] = r
		}
		wasFrozen := r.Frozen
		r.lastSeen = now
		r.observe(j, f, now, dt)
		if r.Frozen && !wasFrozen {
			a.completed(j, r, known)
		}
		if h, drift := histories[i]; drift {
			for g, n := range counts(j) {
				if n == r.Counts[g] {
					continue
				}
				if cluster.SetByHand(h, g, n) {
					r.HandUntil, r.LastChange = now.Add(a.cfg.Planner.HandHold), now
					a.log.Info("a count was set by hand; leaving it for a while", "job", j.Key, "group", g, "count", n, "until", r.HandUntil)
				} else if at := cluster.LastChange(h, g); at.After(r.LastChange) {
					// The leader before wrote it and could not save that.
					r.LastChange = at
				}
			}
		}
		r.Counts = counts(j)
		a.recall(j, f, r, now)
	}
	for k, r := range a.ledger.Jobs {
		if r.lastSeen.IsZero() {
			r.lastSeen = now
		}
		if now.Sub(r.lastSeen) > forgetAfter {
			delete(a.ledger.Jobs, k)
		}
	}
}

// forgetAfter is how long a job that is gone is remembered.
const forgetAfter = time.Hour

// recall fills the planner's job with what the record knows.
func (a *Agent) recall(j *planner.Job, f *cluster.Facts, r *Record, now time.Time) {
	j.Started = !r.FirstStart.IsZero()
	j.LastChange, j.HandUntil, j.GrowAfter, j.PendingSince = r.LastChange, r.HandUntil, r.GrowAfter, r.pendingSince
	switch {
	case r.Frozen:
		j.Frozen = "a worker has completed; scaling now would run completed workers again"
	case j.Left != "":
	case a.control.paused(j.Key.Namespace + "/" + j.Key.ID):
		j.Left = "paused by a user"
	case f.Failed:
		j.Left = "all its workers have failed and Nomad gave it up; register it again"
	case r.retryAt.After(now):
		j.Left = "a write failed, and is tried again later: " + r.trouble
	}
	if f.Batch && j.Count() == 0 && !r.Frozen {
		if r.keepUntil.IsZero() {
			// A garbage collection by hand does not wait for hours.
			r.keepUntil = now.Add(a.cfg.Planner.KeepAlive + a.protectAfter)
		}
		j.KeepUntil = r.keepUntil
	} else {
		r.keepUntil = time.Time{}
	}
}

// completed tells of a completion. The caller holds a.mu.
func (a *Agent) completed(j *planner.Job, r *Record, known bool) {
	if known {
		a.metrics.completed(j.Key, r)
	}
	a.untold = append(a.untold, Event{Type: "complete", Job: j.Key.String(), From: j.Count(), To: j.Count(), Reason: "a worker has completed"})
	select {
	case a.dump <- struct{}{}: // must not be forgotten
	default:
	}
}

// makeRoom keeps slots free that jobs which are not elastic wait for, as far
// as elastic jobs of no higher priority hold them above their minimum.
func (a *Agent) makeRoom(v *cluster.View) {
	if len(v.Blocked) == 0 {
		return
	}
	v.Others = map[string]int{}
	for _, b := range v.Blocked { // highest priority first
		given := v.Others[b.Pool]
		v.Others[b.Pool] += min(b.Slots, max(0, spare(v, b.Pool, b.Priority)-given))
	}
}

// spare is how many slots of a pool elastic jobs could do without for a job of
// the given priority.
func spare(v *cluster.View, pool string, priority int) int {
	n := 0
	for i := range v.Nodes {
		if v.Nodes[i].Pool == pool && v.Nodes[i].State == planner.Ready {
			for _, bin := range v.Nodes[i].Bins {
				n += max(0, bin.Slots)
			}
		}
	}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.Pool != pool {
			continue
		}
		keep := j.Count()
		if j.Priority <= priority && j.Frozen == "" && j.Left == "" {
			keep = min(keep, j.Min)
			if j.Suspendable && j.Priority < priority {
				keep = 0
			}
		}
		n -= keep * v.Facts[i].Slots
	}
	return n
}

// write sends the plan: what gives first, then what takes.
func (a *Agent) write(ctx context.Context, v *cluster.View, plan planner.Plan) {
	index := make(map[planner.JobKey]int, len(v.Jobs))
	for i := range v.Jobs {
		index[v.Jobs[i].Key] = i
	}
	gives, takes := []planner.Action{}, []planner.Action{}
	for _, act := range plan.Actions {
		if act.To < act.From {
			gives = append(gives, act)
		} else {
			takes = append(takes, act)
		}
	}
	for _, batch := range [][]planner.Action{gives, takes} {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(writersAtOnce)
		for _, act := range batch {
			g.Go(func() error {
				i := index[act.Job]
				start := time.Now()
				done, err := a.writer.Apply(ctx, act, v.Facts[i], map[string]any{
					"cause": act.Cause, "from": act.From, "to": act.To, "agent": a.name(), "pool": v.Jobs[i].Pool,
				})
				a.wrote(act, done, err, time.Since(start))
				return nil
			})
		}
		_ = g.Wait() // errors are the jobs' own
	}
}

// untag lets go of jobs that were protected while they waited.
func (a *Agent) untag(ctx context.Context, v *cluster.View) {
	for i := range v.Jobs {
		j := &v.Jobs[i]
		a.mu.Lock()
		r := a.ledger.Jobs[j.Key]
		release := r != nil && r.Tagged && (j.Count() > 0 || j.Frozen != "" || j.Stopped)
		a.mu.Unlock()
		if !release {
			continue
		}
		if err := a.writer.Untag(ctx, j.Key); err != nil {
			a.log.Warn("a job stays protected from garbage collection", "job", j.Key, "error", err)
			continue
		}
		a.mu.Lock()
		r.Tagged = false
		a.mu.Unlock()
	}
}

// wrote takes over what became of an action.
func (a *Agent) wrote(act planner.Action, done cluster.Written, err error, took time.Duration) {
	now := time.Now()
	a.mu.Lock()
	r := a.ledger.Jobs[act.Job]
	if r == nil {
		r = &Record{}
	}
	if done.Steps > 0 {
		r.LastIndex = done.Index
		for _, s := range act.Steps[:done.Steps] {
			if r.Counts == nil {
				r.Counts = map[string]int{}
			}
			r.Counts[s.Group] = s.To
		}
	}
	if act.Cause == planner.Keep {
		r.keepUntil = now.Add(jobGC)
		r.Tagged = r.Tagged || done.Tagged
	} else if done.Steps > 0 {
		r.LastChange = now
		if act.From > 0 {
			r.Resizes++
		}
		if act.Cause == planner.TakeBack {
			r.GrowAfter = now.Add(a.cfg.Planner.PlacementRetry)
		}
	}
	if err == nil {
		r.retries, r.trouble = 0, ""
	} else {
		switch kind := cluster.Classify(err); {
		case errors.Is(err, cluster.ErrStale), kind == cluster.Conflict, kind == cluster.Gone, kind == cluster.Stopped:
		default:
			r.failed(now, kind, err)
		}
	}
	a.mu.Unlock()
	a.metrics.wrote(act, err, took)

	switch {
	case err == nil && act.Cause != planner.Keep:
		a.log.Info("resized", "job", act.Job, "from", act.From, "to", act.To, "cause", act.Cause, "reason", act.Reason)
		a.event(Event{Type: "resize", Job: act.Job.String(), From: act.From, To: act.To, Cause: string(act.Cause), Reason: act.Reason})
	case err == nil:
		a.log.Info("protected a waiting job from garbage collection", "job", act.Job, "by_tag", done.Tagged, "by_scale", done.Steps > 0)
	case errors.Is(err, cluster.ErrStale) || cluster.Classify(err) == cluster.Conflict:
		a.log.Debug("a job changed meanwhile; planning anew", "job", act.Job, "error", err)
		a.poke()
	case cluster.Classify(err) == cluster.Stopped:
		a.log.Info("not written: leadership ended", "job", act.Job)
	default:
		a.log.Warn("writing failed", "job", act.Job, "kind", cluster.Classify(err), "error", err)
		a.event(Event{Type: "trouble", Job: act.Job.String(), From: act.From, To: act.To, Reason: err.Error()})
	}
}

// report tells users of problems with their jobs: each once, as long as this
// agent runs.
func (a *Agent) report(ctx context.Context, aside []cluster.Aside) {
	for _, s := range aside {
		if s.Off || len(s.Problems) == 0 {
			continue
		}
		text := s.Problems.Text()
		a.mu.Lock()
		told := a.reported[s.Key] == text
		a.reported[s.Key] = text
		a.mu.Unlock()
		if told {
			continue
		}
		a.log.Warn("job left alone", "job", s.Key, "problems", strings.ReplaceAll(text, "\n", " | "))
		a.event(Event{Type: "problem", Job: s.Key.String(), Reason: text})
		if err := a.writer.Report(ctx, s); err != nil {
			a.log.Warn("the job could not be told of its problems", "job", s.Key, "error", err)
		}
	}
}

// describe makes the status that is published. The caller holds a.mu.
func (a *Agent) describe(v *cluster.View, wants []planner.Want, plan planner.Plan, lead bool, now time.Time) *Status {
	s := &Status{Time: now, Agent: a.cfg.Name, Leading: lead, Ready: true, Paused: a.control.All, Jobs: []JobStatus{}, Pools: []PoolStatus{}}
	waits := make(map[planner.JobKey]planner.Wait, len(plan.Waits))
	for _, w := range plan.Waits {
		waits[w.Job] = w
	}
	pools := map[string]*PoolStatus{}
	for _, name := range poolNames(v) {
		p := a.policies[name]
		pools[name] = &PoolStatus{Name: name, Others: v.Others[name], Policy: p.spec, Problem: p.problem}
	}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.State == planner.Ready {
			for _, b := range n.Bins {
				pools[n.Pool].Capacity += max(0, b.Slots)
			}
		}
	}
	for i := range v.Jobs {
		j, f, r := &v.Jobs[i], &v.Facts[i], a.ledger.Jobs[v.Jobs[i].Key]
		js := describeJob(j, f, r, wants[i], waits[j.Key], now)
		p := pools[j.Pool]
		p.Used += j.Alive() * f.Slots
		if js.State == StateWaiting || js.State == StateSuspended {
			p.Waiting++
		}
		s.Jobs = append(s.Jobs, js)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		s.Pools = append(s.Pools, *pools[name])
	}
	for _, x := range v.Aside {
		out := AsideJob{Namespace: x.Key.Namespace, ID: x.Key.ID, Count: x.Count, Off: x.Off}
		for _, p := range x.Problems {
			out.Problems = append(out.Problems, p.String())
		}
		s.Aside = append(s.Aside, out)
	}
	return s
}

func describeJob(j *planner.Job, f *cluster.Facts, r *Record, w planner.Want, wait planner.Wait, now time.Time) JobStatus {
	js := JobStatus{
		Namespace: j.Key.Namespace, ID: j.Key.ID, Pool: j.Pool, Queue: f.Spec.Queue,
		Count: j.Count(), Running: f.Running, Want: w.Count, Min: j.Min, Max: j.Max, Reason: w.Reason,
		Wait: wait.Why, Until: wait.Until, Seen: r.FirstSeen, Started: r.FirstStart, Completed: r.Completed,
		Attained: r.Attained, Resizes: r.Resizes, Step: r.Done, Loss: r.loss, Size: r.size, Gaps: r.Gaps, LostSteps: r.Lost, Trouble: r.trouble,
	}
	js.Total = f.Spec.TotalWork
	if js.Total == 0 {
		js.Total = r.Total
	}
	switch {
	case r.Frozen:
		js.State, js.Wait = StateComplete, ""
	case j.Left != "":
		js.State, js.Wait = StateHeld, j.Left
	case f.Running > 0 || j.Count() > 0:
		js.State = StateRunning
	case j.Started:
		js.State = StateSuspended
	default:
		js.State = StateWaiting
	}
	if js.State == StateRunning && js.Total > r.Done && len(r.Points) > 0 && f.Running > 0 {
		curve := policy.NewCurve(r.Points...)
		js.ETA = now.Add(time.Duration((js.Total - r.Done) * curve.Time(f.Running) * float64(time.Second))).Round(time.Second)
	}
	return js
}
