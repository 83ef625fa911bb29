// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// manyHosts is a leader with simulated hosts of one slot each. Their sessions encode messages as
// package session does, without gRPC and TLS. All hosts share one goroutine, which has a thread of
// its own, so that their processor time can be told from the leader's.
type manyHosts struct {
	*Leader
	inbox    chan delivery
	hosts    []*stub
	up       chan uint64 // generations of rings of which all members are up
	messages atomic.Int64
	toHosts  atomic.Int64 // bytes
	toLeader atomic.Int64
	used     atomic.Int64 // processor time of the hosts
	stop     func()
}

// delivery is a message to a host, or a function that the goroutine of the hosts calls.
type delivery struct {
	to   *stub
	data []byte
	do   func()
}

// stub simulates an agent and its training process.
type stub struct {
	m     *manyHosts
	alloc string
	proc  elastic.Proc
	ring  uint64
	out   chan []byte
	once  sync.Once
	done  chan struct{}
}

func startMany(n int) *manyHosts {
	ctx, cancel := context.WithCancel(context.Background())
	c := config.Config{Training: settings.Training{NP: n, MinNP: 1, ElasticTimeout: settings.Duration(time.Hour), StallTimeout: settings.Auto}}
	m := &manyHosts{inbox: make(chan delivery, 1<<20), up: make(chan uint64, 64),
		Leader: New(Options{Exchange: noExchange, Config: c, Term: 1, Logger: hclog.NewNullLogger()})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	wg.Go(func() { m.runHosts(ctx) })
	m.stop = func() {
		cancel()
		wg.Wait()
	}
	for range n {
		m.add()
	}
	return m
}

// add starts another host.
func (m *manyHosts) add() {
	i := len(m.hosts)
	s := &stub{m: m, alloc: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), out: make(chan []byte, 64), done: make(chan struct{})}
	m.hosts = append(m.hosts, s)
	go func() { _ = m.Serve(s) }()
	s.send(&wire.ToLeader{Register: &wire.Register{AllocID: s.alloc, KeepsRanks: true,
		Info: elastic.HostInfo{ID: elastic.HostID(s.alloc[:8] + "-8vwexpiq"), Index: i, Slots: make([]elastic.SlotReport, 1)}}})
}

// Send is the leader's side of the session.
func (s *stub) Send(message *wire.ToAgent) error {
	data, err := json.Marshal(message)
	if err == nil {
		s.m.messages.Add(1)
		s.m.toHosts.Add(int64(len(data)))
		s.m.inbox <- delivery{to: s, data: data}
	}
	return err
}

func (s *stub) Recv() (*wire.ToLeader, error) {
	message := &wire.ToLeader{}
	select {
	case data := <-s.out:
		return message, json.Unmarshal(data, message)
	case <-s.done:
		return nil, io.EOF
	}
}

func (s *stub) Close() { s.once.Do(func() { close(s.done) }) }

func (s *stub) send(message *wire.ToLeader) {
	data, _ := json.Marshal(message) // messages of this package can be encoded
	s.m.messages.Add(1)
	s.m.toLeader.Add(int64(len(data)))
	select {
	case s.out <- data:
	case <-s.done:
	}
}

func (m *manyHosts) runHosts(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	connected := 0
	for {
		var d delivery
		select {
		case <-ctx.Done():
			return
		case d = <-m.inbox:
		}
		if d.do != nil {
			d.do()
		} else if d.to.receive(d.data) {
			if connected++; connected == len(m.hosts) {
				connected = 0
				m.up <- d.to.ring
			}
		}
		m.used.Store(int64(usage(unix.RUSAGE_THREAD)))
	}
}

// receive handles a message of the leader, and reports whether the process connected to a ring.
func (s *stub) receive(data []byte) bool {
	var message wire.ToAgent
	if err := json.Unmarshal(data, &message); err != nil {
		panic(err) // this package has encoded it
	}
	switch {
	case message.Start != nil:
		s.proc = message.Start.Proc
		s.send(&wire.ToLeader{Arrived: &elastic.SlotArrived{Proc: s.proc}})
	case message.Form != nil:
		s.ring = message.Form.Generation
		s.send(&wire.ToLeader{Up: &elastic.SlotUp{Proc: s.proc, Generation: s.ring}})
		s.send(&wire.ToLeader{Notifiable: &elastic.SlotNotifiable{Proc: s.proc}})
		return true
	case message.Notify != nil && message.Notify.Proc == s.proc: // rank 0; all agree to leave at the next commit
		for _, h := range s.m.hosts {
			if h.ring == s.ring {
				h.send(&wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: h.proc, Generation: h.ring}})
			}
		}
	}
	return false
}

// progress reports ten steps a second, as the host of rank 0 does.
func (m *manyHosts) progress(seconds int) {
	for i := range 10 * seconds {
		step := float64(i + 1)
		m.inbox <- delivery{do: func() {
			h := m.hosts[0]
			h.send(&wire.ToLeader{Progress: &wire.Progress{Generation: h.ring, Step: &step, At: wire.Seconds(time.Now()), Made: 1, Slowest: 0.1}})
		}}
		time.Sleep(100 * time.Millisecond)
	}
}

// usage returns the processor time of this process, or of this thread.
func usage(who int) time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(who, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cost is what a phase of a simulation took.
type cost struct {
	seconds, leader, hosts      float64 // elapsed; processor seconds
	messages, toHosts, toLeader float64 // messages; bytes
}

func (m *manyHosts) during(do func()) cost {
	at := func() cost {
		hosts := time.Duration(m.used.Load())
		return cost{float64(time.Now().UnixNano()) / 1e9, (usage(unix.RUSAGE_SELF) - hosts).Seconds(), hosts.Seconds(),
			float64(m.messages.Load()), float64(m.toHosts.Load()), float64(m.toLeader.Load())}
	}
	a := at()
	do()
	b := at()
	return cost{b.seconds - a.seconds, b.leader - a.leader, b.hosts - a.hosts, b.messages - a.messages, b.toHosts - a.toHosts, b.toLeader - a.toLeader}
}

// A ring of many hosts forms, and grows by one. In between, a host is sent little.
func TestManyHosts(t *testing.T) {
	t.Parallel()
	const n = 64
	m := startMany(n)
	t.Cleanup(m.stop)
	must.EqOp(t, 1, <-m.up)
	for m.Status(t.Context()).Phase != "training" {
		time.Sleep(10 * time.Millisecond)
	}
	must.EqOp(t, n, m.Status(t.Context()).Size)
	const statuses = 10
	spent := m.during(func() {
		before := m.messages.Load()
		for range statuses {
			m.Status(t.Context())
		}
		for m.messages.Load() < before+statuses*n {
			time.Sleep(time.Millisecond)
		}
	})
	must.Less(t, 1000, spent.toHosts/spent.messages, must.Sprint("bytes of a message"))
	m.inbox <- delivery{do: m.add}
	must.EqOp(t, 2, <-m.up)
	must.EqOp(t, n+1, m.Status(t.Context()).Size)
}

// BenchmarkManyHosts prints lines of a table: hosts; seconds until the first ring; processor of the
// leader and kB a second in all sessions while the ring trains; the same of one host; seconds,
// processor seconds of the leader, processor milliseconds of one host, and MB, to grow by one host.
func BenchmarkManyHosts(b *testing.B) {
	for _, n := range []int{64, 256, 512, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			begun := time.Now()
			m := startMany(n)
			<-m.up
			formed := time.Since(begun).Seconds()
			m.progress(3)
			steady := m.during(func() { m.progress(10) })
			resize := m.during(func() {
				m.inbox <- delivery{do: m.add}
				<-m.up
			})
			m.stop()
			bytes := (steady.toHosts + steady.toLeader) / steady.seconds / 1e3
			fmt.Printf("| %d | %.2f | %.1f %% | %.1f | %.3f %% | %.2f | %.2f | %.2f | %.2f | %.1f |\n", n, formed,
				100*steady.leader/steady.seconds, bytes, 100*steady.hosts/steady.seconds/float64(n), bytes/float64(n),
				resize.seconds, resize.leader, 1000*resize.hosts/float64(n), (resize.toHosts+resize.toLeader)/1e6)
		})
	}
}
