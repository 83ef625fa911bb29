// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package browser

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/server"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// standIn is an autoscaler with a state that a test writes, behind the real API.
type standIn struct {
	server.Controller // of what the page does not ask for

	mu       sync.Mutex
	status   api.Status
	lines    api.Timeline
	nodes    []api.Node
	series   map[identity.JobKey]*api.Series
	details  map[identity.JobKey]*api.JobDetail
	history  map[identity.JobKey][]api.Change
	events   chan api.Event
	commands []string
	hung     time.Time // last step of the jobs that hang
	guarded  bool      // changes require a token
	secret   bool      // reads, too
	asked    int       // how often the timeline was asked for
}

// serve serves the API of a stand-in and its page.
func serve(t *testing.T, s *standIn) *httptest.Server {
	s.events = make(chan api.Event, 16)
	web := httptest.NewServer(server.New(s, s, nil, hclog.NewNullLogger()))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// change changes the state, and tells the page if there is an event.
func (s *standIn) change(edit func(), events ...api.Event) {
	s.mu.Lock()
	edit()
	s.lines.Events = append(s.lines.Events, events...)
	s.mu.Unlock()
	for _, e := range events {
		s.events <- e
	}
}

func (s *standIn) locked() func() {
	s.mu.Lock()
	return s.mu.Unlock
}

func (s *standIn) Config() *config.Config {
	defer s.locked()()
	return &config.Config{Name: "gpu-control-1", HTTP: config.HTTP{Open: !s.guarded, ReadToken: s.secret}}
}

func (s *standIn) Status() *api.Status {
	defer s.locked()()
	out := s.status
	out.Time = time.Now()
	out.Jobs = slices.Clone(out.Jobs)
	for i := range out.Jobs {
		if j := &out.Jobs[i]; j.Hangs > 0 {
			j.Hangs = out.Time.Sub(s.hung).Seconds()
		}
	}
	return &out
}

func (s *standIn) Timeline(since time.Time) *api.Timeline {
	defer s.locked()()
	s.asked++
	out := s.lines
	out.From, out.To = since, time.Now()
	return &out
}

func (s *standIn) Nodes() ([]api.Node, error) {
	defer s.locked()()
	return s.nodes, nil
}

func (s *standIn) Series(key identity.JobKey) *api.Series {
	defer s.locked()()
	if s.series[key] != nil {
		return s.series[key]
	}
	return &api.Series{Time: []float64{}, Size: []int{}, Step: []float64{}, Resizes: []api.RingResize{}}
}

func (s *standIn) JobDetail(key identity.JobKey) *api.JobDetail {
	defer s.locked()()
	if d := s.details[key]; d != nil {
		out := *d
		if t := d.Training; t != nil {
			heard := *t
			if heard.Heard = time.Now(); t.Stepped.Equal(t.Heard) {
				heard.Stepped = heard.Heard
			}
			out.Training = &heard
		}
		return &out
	}
	return &api.JobDetail{}
}

func (s *standIn) History(_ context.Context, key identity.JobKey) ([]api.Change, error) {
	defer s.locked()()
	return s.history[key], nil
}

func (s *standIn) Usage(context.Context, usage.Day) ([]usage.Row, error) {
	return []usage.Row{{Key: usage.Key{Day: usage.DayOf(time.Now()), Pool: "gpu", Queue: "research", Namespace: "default", Job: "llama-pretrain"}, Counts: usage.Counts{Held: 1000, Productive: 931, Starting: 40, Resizing: 29}}}, nil
}

func (s *standIn) Propose(_ context.Context, line string, _ map[string]config.Pool) ([]api.Proposal, error) {
	defer s.locked()()
	if line == "nonsense" {
		return nil, errors.New("no policy is called nonsense")
	}
	out := api.Proposal{Pool: "gpu", Policy: "kolo", Jobs: []api.ProposedJob{}}
	if line != "" {
		out.Policy = line
	}
	for i := range s.status.Jobs {
		j := &s.status.Jobs[i]
		p := api.ProposedJob{Job: j.String(), JobKey: j.JobKey, Count: j.Count, Want: j.Want, Write: j.Count, Reason: j.Reason}
		if line != "" && j.ID == "llama-pretrain" {
			p.Want, p.Write, p.Cause, p.Reason = 4, 4, "shrink", "takes its turn"
		}
		out.Jobs = append(out.Jobs, p)
	}
	return []api.Proposal{out}, nil
}

func (s *standIn) Pools() (configured, set map[string]string) {
	return map[string]string{"*": "kolo", "gpu": "kolo"}, map[string]string{}
}

func (s *standIn) ExternalPolicies() []string { return nil }

func (s *standIn) Leads() bool { return true }

func (s *standIn) Subscribe() (<-chan api.Event, func()) { return s.events, func() {} }

func (s *standIn) SetPaused(_ context.Context, _ string, key identity.JobKey, paused bool) error {
	defer s.locked()()
	s.commands = append(s.commands, fmt.Sprintf("pause %s %t", key.ID, paused))
	s.status.Paused = key.ID == "" && paused
	return nil
}

func (s *standIn) SetPolicy(_ context.Context, _, pool, line string) error {
	defer s.locked()()
	s.commands = append(s.commands, fmt.Sprintf("policy %s %s", pool, line))
	return nil
}

func (s *standIn) Identify(_ context.Context, token string) (string, error) {
	if token == "good" {
		return "a user", nil
	}
	return "", cluster.ErrUnknownToken
}

func (s *standIn) MayRead(context.Context, string, identity.JobKey) (bool, error) { return true, nil }

// given returns the commands that the autoscaler got.
func (s *standIn) given() []string {
	defer s.locked()()
	return slices.Clone(s.commands)
}

func key(id string) identity.JobKey { return identity.JobKey{Namespace: "default", ID: id} }

func pointer[T any](v T) *T { return &v }

// lab returns a cluster of 4 nodes with 8 GPUs each: three jobs train, one of which hangs,
// three wait, and a resize has just moved four GPUs from one job to another.
func lab() *standIn {
	now := time.Now()
	ago := func(minutes float64) time.Time { return now.Add(-time.Duration(minutes * float64(time.Minute))) }
	running := func(id, queue string, size, most int, started float64) api.JobStatus {
		return api.JobStatus{
			JobKey: key(id), Pool: "gpu", Queue: queue, State: api.StateRunning, Count: size, Running: size, Want: size, Min: 2, Max: most,
			Reason: fmt.Sprintf("%d workers: each one still speeds it up", size), Seen: ago(started + 1), Started: ago(started), Size: size,
		}
	}
	waits := func(id, queue string, position, slots int, reason waiting.Reason, sentence string, e *api.Expected) api.JobStatus {
		return api.JobStatus{
			JobKey: key(id), Pool: "gpu", Queue: queue, State: api.StateWaiting, Min: slots, Max: 16, Seen: ago(25), Reason: sentence,
			Waits: &api.Waits{Reason: reason, Sentence: sentence, Queue: queue, Position: position, Slots: slots, Since: ago(25 - 6*float64(position)), Expected: e},
		}
	}
	s := &standIn{series: map[identity.JobKey]*api.Series{}, details: map[identity.JobKey]*api.JobDetail{}, history: map[identity.JobKey][]api.Change{}}
	soon := &api.Expected{Earliest: now.Add(35 * time.Minute), Latest: now.Add(70 * time.Minute), Made: now}
	s.status = api.Status{
		Autoscaler: "gpu-control-1", Leading: true, Ready: true, Leader: api.Leader{Name: "gpu-control-1"},
		Jobs: []api.JobStatus{
			running("llama-pretrain", "research", 12, 24, 120), running("whisper-finetune", "research", 8, 8, 120), running("resnet-sweep", "teaching", 8, 16, 60),
			waits("protein-fold", "research", 1, 16, waiting.InQueue, "jobs of queue research that came first have the slots: llama-pretrain, whisper-finetune", &api.Expected{Made: now, Unknown: "the end of whisper-finetune is unknown, because it makes no steps"}),
			waits("ocr-large", "teaching", 1, 8, waiting.OverLimit, "queue teaching holds 8 slots: with the 8 of ocr-large it would hold 16, and its limit is 12", soon),
			waits("segmentation", "teaching", 2, 4, waiting.InQueue, "ocr-large is before it in queue teaching", &api.Expected{Earliest: soon.Earliest, Made: now, Unknown: "the length of ocr-large is unknown"}),
		},
		Pools: []api.PoolStatus{{
			Name: "gpu", Policy: "kolo", Capacity: 31, Used: 28, Waiting: 3,
			Queues: []api.QueueStatus{{Name: "research", Guarantee: 20}, {Name: "teaching", Guarantee: 4, Limit: 12}, {Name: "vision", Guarantee: 4}},
			Use: []api.QueueUse{
				{Queue: "research", Used: 20, Waiting: 1, Entitled: pointer(20), Reasons: map[waiting.Reason]int{waiting.InQueue: 1}},
				{Queue: "teaching", Used: 8, Borrowed: 4, Waiting: 2, Entitled: pointer(11), Reasons: map[waiting.Reason]int{waiting.InQueue: 1, waiting.OverLimit: 1}},
				{Queue: "vision", Lent: 4, Entitled: pointer(0)}, {Queue: "*", Entitled: pointer(0)},
			},
		}},
	}
	s.status.Jobs[2].Adaptive = &api.Adaptive{Initial: 64, Batch: 512, Accumulation: 2, Efficiency: 0.78, LRFactor: 6.24}
	at := func(minutes float64, slots int) api.SlotsAt { return api.SlotsAt{At: ago(minutes), Slots: slots} }
	s.lines = api.Timeline{
		Pools: []api.PoolLine{{Pool: "gpu", Capacity: []api.SlotsAt{at(120, 32), at(41, 31)}}},
		Jobs: []api.JobLine{
			{JobKey: key("llama-pretrain"), Pool: "gpu", Slots: []api.SlotsAt{at(120, 8), at(95, 16), at(60, 12), at(30, 8), at(6, 12)}},
			{JobKey: key("whisper-finetune"), Pool: "gpu", Slots: []api.SlotsAt{at(120, 8)}},
			{JobKey: key("resnet-sweep"), Pool: "gpu", Slots: []api.SlotsAt{at(60, 4), at(30, 12), at(6, 8)}},
			{JobKey: key("bert-eval"), Pool: "gpu", Slots: []api.SlotsAt{at(120, 8), at(95, 0)}},
			{JobKey: key("vit-small"), Pool: "gpu", Slots: []api.SlotsAt{at(110, 4), at(32, 0)}},
		},
		Events: []api.Event{
			{Time: ago(60), Type: "resize", Job: "resnet-sweep", Namespace: "default", ID: "resnet-sweep", To: 4, Cause: "start", Reason: "its minimum fits"},
			{Time: ago(32), Type: "complete", Job: "vit-small", Namespace: "default", ID: "vit-small", Reason: "a worker has completed"},
			{Time: ago(30), Type: "resize", Job: "resnet-sweep", Namespace: "default", ID: "resnet-sweep", From: 4, To: 12, Cause: "grow", Reason: "gains more than llama-pretrain loses"},
			{Time: ago(6), Type: "resize", Job: "resnet-sweep", Namespace: "default", ID: "resnet-sweep", From: 12, To: 8, Cause: "shrink", Reason: "queue research takes back 4 slots of its guarantee for llama-pretrain"},
			{Time: ago(6), Type: "resize", Job: "llama-pretrain", Namespace: "default", ID: "llama-pretrain", From: 8, To: 12, Cause: "grow", Reason: "its queue research is entitled to 20 slots"},
		},
	}
	s.lines.Events = append(s.lines.Events, api.Event{Time: ago(5), Type: "stalled", Job: "whisper-finetune", Namespace: "default", ID: "whisper-finetune", From: 8, To: 8, Reason: "its ring of 8 made no step for 61 s"})
	for i := range 4 {
		n := api.Node{ID: fmt.Sprintf("node-%d", i), Name: fmt.Sprintf("gpu-%02d", i+1), Pool: "gpu", Path: []string{fmt.Sprintf("rack-%d", i/2+1), fmt.Sprintf("gpu-%02d", i+1)}, State: "ready", Slots: 8, Held: []api.Held{}}
		for _, h := range [][]any{{"llama-pretrain", 8}, {"llama-pretrain", 4, "resnet-sweep", 4}, {"whisper-finetune", 8}, {"resnet-sweep", 4}}[i : i+1] {
			for k := 0; k < len(h); k += 2 {
				n.Held = append(n.Held, api.Held{JobKey: pointer(key(h[k].(string))), Alloc: "a", Slots: h[k+1].(int), Elastic: true})
			}
		}
		if i == 3 {
			n.Sick, n.Problems = 1, []string{"nvidia/gpu/H100 GPU-5f2c: Xid 79: the GPU has fallen off the bus"}
		}
		s.nodes = append(s.nodes, n)
	}
	s.history[key("resnet-sweep")] = []api.Change{
		{Time: ago(6), Group: "workers", From: 12, To: 8, Kolo: true, Message: "shrink: queue research takes back 4 slots of its guarantee for llama-pretrain"},
		{Time: ago(30), Group: "workers", From: 4, To: 12, Kolo: true, Message: "grow: gains more than llama-pretrain loses"},
		{Time: ago(60), Group: "workers", From: 0, To: 4, Kolo: true, Message: "start: its minimum fits"},
	}
	for _, id := range []string{"llama-pretrain", "whisper-finetune", "resnet-sweep"} {
		s.train(key(id), now, id == "whisper-finetune")
	}
	for i := range s.status.Jobs[:3] {
		s.agree(&s.status.Jobs[i], now)
	}
	s.status.Jobs[0].Straggler = &api.Straggler{Rank: 5, AllocID: "00000002-89ab-4cde-8f01-23456789abcd", Node: "gpu-03", Share: 0.92, Behind: 0.14, Since: ago(9)}
	s.details[key("resnet-sweep")].Training.Stall = &api.Stall{Time: ago(17), Size: 12, Seconds: 61, Stacks: stalled()}
	return s
}

// stalled returns the stacks of a ring of 12 whose rank 3 waits for a worker of its data loader.
func stalled() *stacks.Summary {
	at := func(rank int, state stacks.State, call, function, file string) stacks.Rank {
		frames := []stacks.Frame{{Function: function, File: file, Line: 88}, {Function: "train", File: "/app/train.py", Line: 92}}
		return stacks.Rank{Rank: rank, Process: stacks.Process{PID: 800 + rank, Command: "python3", State: state, Syscall: call, Threads: []stacks.Thread{{Main: true, Frames: frames}}}}
	}
	var ranks []stacks.Rank
	for rank := range 11 {
		ranks = append(ranks, at(rank, stacks.Sleeping, "futex", "all_reduce", "/opt/venv/lib/python3.13/site-packages/torch/distributed/distributed_c10d.py"))
	}
	ranks[3] = at(3, stacks.Sleeping, "ppoll", "_try_get_data", "/opt/venv/lib/python3.13/site-packages/torch/utils/data/dataloader.py")
	worker := at(30, stacks.Disk, "openat", "", "").Process
	worker.Threads, worker.Missing = nil, "faulthandler: a process that is uninterruptible handles no signal"
	ranks[3].Workers = []stacks.Process{worker}
	return stacks.Summarize(ranks, []int{11})
}

// agree fills in what the status of a job says about its training, from its series.
func (s *standIn) agree(j *api.JobStatus, now time.Time) {
	of := s.series[j.JobKey]
	n := len(of.Time) - 1
	j.Step, j.Loss = math.Floor(of.Step[n]), of.Loss[n]
	j.Total = j.Step + 9000
	j.Progress = j.Step / j.Total
	j.Resizes = len(s.lineOf(j.ID)) - 1
	for _, p := range s.details[j.JobKey].Curve {
		if p.Measured {
			j.StepTimes = append(j.StepTimes, speedup.Point{Size: p.Size, StepTime: p.StepTime})
		}
	}
	u := &api.Usage{Waiting: 60, Resizes: j.Resizes}
	for i := 1; i <= n; i++ {
		took := float64(of.Size[i-1]) * (of.Time[i] - of.Time[i-1])
		u.Held += took
		if of.Step[i] == of.Step[i-1] {
			u.Idle += took
		}
	}
	for _, r := range of.Resizes {
		if r.Cause == "failure" {
			u.Lost += float64(r.From) * (*r.Seconds + *r.Lost/2)
		} else {
			u.Resizing += float64(r.To) * *r.Seconds
		}
	}
	u.Starting = 0.085 * u.Held
	u.Productive = u.Held - u.Starting - u.Resizing - u.Lost - u.Idle
	u.Share = pointer(u.Productive / u.Held)
	j.Usage = u
	if u.Idle > 0 {
		s.hung = now.Add(-6 * time.Minute)
		j.Hangs = now.Sub(s.hung).Seconds()
	} else {
		j.ETA = now.Add(time.Duration((j.Total - j.Step) * (of.Time[n] - of.Time[n-1]) / (of.Step[n] - of.Step[n-1]) * float64(time.Second)))
	}
}

// lineOf returns the slots of a job over time.
func (s *standIn) lineOf(id string) []api.SlotsAt {
	for _, l := range s.lines.Jobs {
		if l.ID == id {
			return l.Slots
		}
	}
	return []api.SlotsAt{{Slots: 4}}
}

// train writes the series and the details of a training. One that hangs has made no step for
// six minutes.
func (s *standIn) train(k identity.JobKey, now time.Time, hangs bool) {
	out, step, samples, line := &api.Series{Resizes: []api.RingResize{}}, 30_000.0, 0.0, s.lineOf(k.ID)
	for i := 120; i >= 0; i-- {
		at, n := now.Add(-time.Duration(i)*time.Minute), 0
		for _, p := range line {
			if !p.At.After(at) {
				n = p.Slots
			}
		}
		if n == 0 {
			continue // it has not started
		}
		if !hangs || i >= 6 {
			step += 60 / (0.16 + 3/float64(n) + 0.02*float64(i%5))
			samples += 60 * 90 * float64(n) / 12
		}
		out.Time = append(out.Time, float64(at.Unix()))
		out.Size, out.Step, out.Samples = append(out.Size, n), append(out.Step, step), append(out.Samples, samples)
		out.Loss = append(out.Loss, pointer(1.2+40/(20+float64(len(out.Time)))+0.03*float64(i%3)))
	}
	stepped := now
	if hangs {
		stepped = now.Add(-6 * time.Minute)
	}
	for i := 1; i < len(line); i++ {
		out.Resizes = append(out.Resizes, api.RingResize{Time: line[i].At, From: line[i-1].Slots, To: line[i].Slots, Cause: "resize", Seconds: pointer(0.24), Lost: pointer(0.0)})
	}
	if k.ID == "resnet-sweep" {
		failure := api.RingResize{Time: now.Add(-17 * time.Minute), From: 12, To: 12, Cause: "failure", Seconds: pointer(6.4), Lost: pointer(3.0)}
		out.Resizes = slices.Insert(out.Resizes, 1, failure)
	}
	d := &api.JobDetail{Training: &api.Training{Phase: "training", Heard: now, Stepped: stepped}}
	for _, n := range []int{2, 4, 6, 8, 10, 12, 14, 16} {
		if k.ID == "whisper-finetune" && n > 8 {
			break // its maximum
		}
		measured := slices.ContainsFunc(line, func(p api.SlotsAt) bool { return p.Slots == n })
		d.Curve = append(d.Curve, api.CurvePoint{Size: n, StepTime: 0.16 + 3/float64(n), Measured: measured})
	}
	for i := range 2 {
		a := api.JobAllocation{ID: fmt.Sprintf("%08d-89ab-4cde-8f01-23456789abcd", i+1), Group: "workers", Node: fmt.Sprintf("gpu-%02d", i+2), Slots: 4, Created: now.Add(-time.Hour)}
		for g := range 4 {
			a.Ranks = append(a.Ranks, 4*i+g)
			a.Devices = append(a.Devices, fmt.Sprintf("GPU-%d%d%06d", i, g, 5127))
		}
		d.Allocations = append(d.Allocations, a)
	}
	s.series[k], s.details[k] = out, d
}

// listen listens at an address that was in use until now.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(50 * time.Millisecond) {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err == nil {
			return l
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
