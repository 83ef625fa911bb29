// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
	"github.com/kolo-nomad/kolo/autoscaler/api/server"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller"
)

var update = flag.Bool("update", false, "make docs/demo.kolo again, in a minute or two")

const demo = "../../../docs/demo.kolo"

// The demo is a morning of 4 nodes with 8 GPUs each. It was recorded with -update from the
// autoscaler itself, in virtual time, with stand-ins for Nomad and for the trainings.
func TestDemo(t *testing.T) {
	if *update {
		must.NoError(t, os.WriteFile(demo, recordDemo(t), 0o644))
	}
	text, err := os.ReadFile(demo)
	must.NoError(t, err)
	must.Less(t, 200_000, len(text))
	rec, err := recording.Open(bytes.NewReader(text), int64(len(text)))
	must.NoError(t, err)
	t.Logf("%d bytes, %d frames in %s", len(text), rec.Frames(), rec.To().Sub(rec.From()))
	must.Zero(t, rec.Torn())
	for at := rec.From(); !at.After(rec.To()); at = at.Add(10 * time.Minute) {
		for _, request := range append(slices.Clone(requests), "/v1/status") {
			text, there, err := rec.Answer(at, request)
			must.NoError(t, err)
			must.True(t, there && json.Valid(text), must.Sprintf("%s at %s", request, at))
		}
		text, _, err := rec.Answer(at, "/v1/status")
		must.NoError(t, err)
		var s api.Status
		must.NoError(t, json.Unmarshal(text, &s))
		must.NotEq(t, 0, s.Pools[0].Used)
		must.Eq(t, "kolo-1", s.Autoscaler) // and not the machine that made it
	}
}

// training stands for a training that reports its progress.
type training struct {
	id, queue    string
	least, most  int
	after        time.Duration // from the beginning
	steps        float64
	fixed, slots float64 // seconds of a step: fixed + slots / number of slots
	loss         float64

	at      string // address of its agent
	size    int
	begun   bool
	resumes time.Time // end of the pause of a resize
	step    float64
	resizes []map[string]any
	spent   map[int]int // steps by size
}

// morning lists trainings with the kinds and step times of the applications in Pollux' trace.
func morning() []*training {
	minutes := func(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
	job := func(id, queue string, after float64, least, most int, hours, fixed, slots, loss float64) *training {
		n := float64(most+least) / 2
		return &training{id: id, queue: queue, after: minutes(after), least: least, most: most, steps: math.Round(hours * 3600 / (fixed + slots/n)), fixed: fixed, slots: slots, loss: loss}
	}
	return []*training{
		job("imagenet-resnet50", "research", 0, 4, 16, 2.2, 0.11, 3.4, 6.9),
		job("squad-bert", "research", 3, 4, 8, 0.9, 0.15, 1.9, 5.1),
		job("cifar10-a", "teaching", 8, 2, 8, 0.25, 0.04, 0.5, 2.3),
		job("voc-yolov3", "teaching", 14, 4, 12, 1.1, 0.2, 2.2, 9.5),
		job("movielens-ncf", "teaching", 22, 2, 4, 0.2, 0.02, 0.1, 0.69),
		job("librispeech-ds2", "research", 32, 8, 16, 1.0, 0.3, 4.1, 4.6),
		job("cifar10-b", "teaching", 38, 4, 8, 0.3, 0.04, 0.5, 2.3),
		job("protein-fold", "research", 43, 16, 24, 0.4, 0.12, 5.5, 3.2),
		job("cifar10-c", "teaching", 47, 4, 8, 0.3, 0.04, 0.5, 2.3),
		job("squad-bert-2", "research", 58, 4, 8, 0.5, 0.15, 1.9, 5.1),
		job("movielens-ncf-2", "teaching", 66, 2, 4, 0.2, 0.02, 0.1, 0.69),
		job("voc-yolov3-2", "teaching", 76, 4, 12, 0.7, 0.2, 2.2, 9.5),
	}
}

const demoConfig = `
name = "kolo-1"
http { open = true }
planner { progress = "15s" }
pool "default" {
  policy "kolo" {}
  queue "research" { guarantee = 16 }
  queue "teaching" {
    guarantee = 8
    limit     = 12
  }
}
`

// recordDemo returns the recording of a morning.
func recordDemo(t *testing.T) []byte {
	jobs := morning()
	agents := newAgents(t, jobs)
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)))
		nomad := nomadtest.New()
		nomad.StopDelay = 2 * time.Second
		nomad.AddNodes(4, 8)
		for i := range 4 {
			nomad.ChangeNode(i, func(n *nomadtest.Node) { n.Name = fmt.Sprintf("gpu-%02d", i+1) })
		}
		cfg, err := config.Parse(map[string][]byte{"kolo.hcl": []byte(demoConfig)})
		must.NoError(t, err)
		cfg.Nomad.Address, cfg.Nomad.Token = "http://127.0.0.1:4646", "demo"
		pipes := newPipes()
		before := http.DefaultTransport
		http.DefaultTransport = &http.Transport{DialContext: pipes.dial} // which clients clone
		defer func() { http.DefaultTransport = before }()
		a, err := controller.New(cfg, nil, hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr}))
		must.NoError(t, err)
		stopNomad := pipes.serve("127.0.0.1:4646", nomad)
		stopAPI := pipes.serve("127.0.0.1:8648", server.New(a, nil, nil, hclog.NewNullLogger()))
		defer stopNomad()
		defer stopAPI()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(125*time.Minute, cancel)
		var g sync.WaitGroup
		g.Go(func() { must.NoError(t, a.Run(ctx)) })
		g.Go(func() { runMorning(ctx, nomad, jobs, agents) })
		time.Sleep(5 * time.Minute)
		r := Recorder{Every: 15 * time.Second, Warn: func(err error) { t.Error(err) }, Client: func(context.Context) (*api.Client, error) {
			return api.NewClient("http://127.0.0.1:8648"), nil
		}}
		must.NoError(t, r.Record(ctx, &out))
		g.Wait()
	})
	return out.Bytes()
}

// runMorning registers jobs, lets them train, and drains a node for a while.
func runMorning(ctx context.Context, nomad *nomadtest.Cluster, jobs []*training, agents *agents) {
	begin, drained, back := time.Now(), false, false
	const tick = 500 * time.Millisecond
	for ctx.Err() == nil {
		past := time.Since(begin)
		_, live := nomad.Counts()
		for _, j := range jobs {
			if !j.begun && past >= j.after {
				j.begun = true
				nomad.Register(nomadtest.Job{ID: j.id, Max: j.most, GPUs: 1, CPU: 100, Priority: 50, Service: j.id, At: []string{j.at},
					Elastic: map[string]any{"kolo": []any{map[string]any{"min": j.least, "queue": j.queue}}}})
			}
			if j.step < j.steps {
				j.train(live[j.id], tick)
				agents.say(j, nomad.Workers(j.id))
			} else {
				for nomad.Complete(j.id) { // all of its workers end
				}
			}
		}
		switch {
		case !drained && past > 70*time.Minute:
			drained = true
			nomad.ChangeNode(3, func(n *nomadtest.Node) { n.Drain, n.Eligible = true, false })
		case !back && past > 85*time.Minute:
			back = true
			nomad.ChangeNode(3, func(n *nomadtest.Node) { n.Drain, n.Eligible = false, true })
		}
		time.Sleep(tick)
	}
}

// train makes steps for a time with the given number of slots. A change of size pauses it.
func (j *training) train(size int, took time.Duration) {
	now := time.Now()
	if size != j.size {
		cause, gap := "resize", 0.3+0.05*float64(size)
		if j.size == 0 {
			cause, gap = "start", 6
		}
		j.resumes = now.Add(time.Duration(gap * float64(time.Second)))
		if size > 0 {
			j.resizes = append(j.resizes, map[string]any{"from": j.size, "to": size, "cause": cause, "gap_seconds": math.Round(100*gap) / 100, "lost_steps": 0, "time": now.Unix()})
		}
		j.size = size
	}
	if size == 0 || now.Before(j.resumes) {
		return
	}
	made := took.Seconds() / j.stepTime(size)
	j.step = min(j.steps, j.step+made)
	j.spent[size] = max(j.spent[size], 10)
	j.spent[size] += int(made)
}

func (j *training) stepTime(size int) float64 { return j.fixed + j.slots/float64(size) }

// agents answer for trainings. They are outside the virtual time.
type agents struct {
	mu   sync.Mutex
	says map[string][]byte
}

func newAgents(t *testing.T, jobs []*training) *agents {
	a := &agents{says: map[string][]byte{}}
	for _, j := range jobs {
		j.spent = map[int]int{}
		web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			a.mu.Lock()
			defer a.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(a.says[j.id]) // the reader may have disconnected
		}))
		// A connection that stays open would keep the virtual time from passing.
		web.Config.SetKeepAlivesEnabled(false)
		web.Start()
		t.Cleanup(web.Close)
		j.at = strings.TrimPrefix(web.URL, "http://")
	}
	return a
}

// say sets what the agent of a training answers.
func (a *agents) say(j *training, workers []string) {
	times, ranks := map[string]any{}, []any{}
	for size, n := range j.spent {
		times[strconv.Itoa(size)] = map[string]any{"mean": j.stepTime(size), "n": n}
	}
	for i, id := range workers {
		ranks = append(ranks, map[string]any{"rank": i, "alloc_id": id})
	}
	step := math.Floor(j.step)
	text, err := json.Marshal(map[string]any{
		"job": j.id, "namespace": "default", "size": j.size, "ranks": ranks, "step": step, "total_steps": j.steps, "samples": 0, "phase": "training",
		"loss": math.Round(1000*j.loss*(0.15+0.85/(1+6*step/j.steps)+0.01*math.Sin(step))) / 1000, "step_seconds": times, "resizes": j.resizes,
	})
	if err != nil {
		panic(err) // a mistake in this test
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says[j.id] = text
}

// pipes is a network in memory, because real connections have no virtual time.
type pipes struct {
	mu sync.Mutex
	at map[string]*pipe
}

func newPipes() *pipes { return &pipes{at: map[string]*pipe{}} }

func (p *pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	to := p.at[address]
	p.mu.Unlock()
	if to == nil {
		return nil, fmt.Errorf("no one listens at %s", address)
	}
	ours, theirs := net.Pipe()
	select {
	case to.conns <- theirs:
		return ours, nil
	case <-to.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve serves an address until stop is called.
func (p *pipes) serve(address string, h http.Handler) (stop func()) {
	l := &pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.mu.Lock()
	p.at[address] = l
	p.mu.Unlock()
	hs := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	return func() { _ = errors.Join(hs.Close(), <-done) }
}

// pipe listens at one address.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipe) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipe) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
