// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

type anyCaller struct{}

func (anyCaller) Admit(_, _ netip.AddrPort) error { return nil }

// rig is an endpoint, its events, and the process that talks to it.
type rig struct {
	t      *testing.T
	f      *Framework
	e      *endpoint
	events chan string
	conn   net.Conn
	in     *bufio.Reader
}

func newRig(t *testing.T, change func(*limits)) *rig {
	t.Helper()
	return newRigOf(t, "", change)
}

// newRigOf is newRig with a mode.
func newRigOf(t *testing.T, mode string, change func(*limits)) *rig {
	t.Helper()
	return newProcess(t, New(framework.Options{Host: "h", Job: "job", Mode: mode, Interface: "eth1", Logger: hclog.NewNullLogger()}), change)
}

// another returns another process of the same host.
func (r *rig) another(change func(*limits)) *rig {
	r.t.Helper()
	return newProcess(r.t, r.f, change)
}

func newProcess(t *testing.T, f *Framework, change func(*limits)) *rig {
	t.Helper()
	r := &rig{t: t, f: f, events: make(chan string, 100)}
	note := func(format string, args ...any) { r.events <- fmt.Sprintf(format, args...) }
	r.e = r.f.NewEndpoint(false, host.Events{
		Arrived:    func(restarts bool) { note("arrived %t", restarts) },
		Waiting:    func(g uint64) { note("waiting %d", g) },
		Notifiable: func() { note("notifiable") },
		Progress:   func(g uint64, p wire.Progress) { note("progress %d %v", g, *p.Step) },
		Warn:       func(text string) { note("warn %s", text) },
		Forming: func(g uint64, round int, listening []netip.AddrPort) {
			note("forming %d round %d at %v", g, round, listening)
		},
		Connected: func(g uint64, round int, listening []netip.AddrPort, known bool) {
			if known {
				note("connected %d round %d at %v", g, round, listening)
			}
		},
	}).(*endpoint)
	if change != nil {
		change(&r.e.limits)
	}
	must.NoError(t, r.e.Listen(anyCaller{}))
	t.Cleanup(func() { must.NoError(t, r.e.Close()) })
	return r
}

func (r *rig) env(name string) string {
	_, fixed := r.e.Environment(elastic.Assignment{})
	return fixed[name]
}

// connect opens a connection of the process, and introduces it.
func (r *rig) connect(torch string) map[string]any {
	r.t.Helper()
	r.dial()
	r.say(`{"type":"hello","version":1,"secret":"` + r.env("KOLO_WORKER_SECRET") + `","torch":"` + torch + `"}`)
	return r.hear()
}

// dial opens a connection of the process.
func (r *rig) dial() {
	r.t.Helper()
	var err error
	r.conn, err = net.Dial("tcp", r.env("KOLO_WORKER_ADDR"))
	must.NoError(r.t, err)
	r.t.Cleanup(func() { _ = r.conn.Close() })
	must.NoError(r.t, r.conn.SetDeadline(time.Now().Add(time.Minute)))
	r.in = bufio.NewReader(r.conn)
}

func (r *rig) say(line string) {
	r.t.Helper()
	_, err := io.WriteString(r.conn, line+"\n")
	must.NoError(r.t, err)
}

func (r *rig) hear() map[string]any {
	r.t.Helper()
	line, err := r.in.ReadBytes('\n')
	must.NoError(r.t, err)
	var m map[string]any
	must.NoError(r.t, json.Unmarshal(line, &m))
	return m
}

func (r *rig) happened(want ...string) {
	r.t.Helper()
	for _, w := range want {
		select {
		case got := <-r.events:
			must.StrContains(r.t, got, w)
		case <-time.After(time.Minute):
			r.t.Fatalf("%s did not happen", w)
		}
	}
	must.Eq(r.t, 0, len(r.events))
}

// ring returns a ring of two members, of which the second is a newcomer.
func ring(generation uint64) *elastic.Ring {
	member := func(host elastic.HostID, rank int, since uint64) elastic.Member {
		return elastic.Member{Proc: elastic.Proc{Slot: elastic.SlotID{Host: host}, Incarnation: 1}, SyncedSince: since,
			Assignment: elastic.Assignment{Rank: rank, Size: 2, LocalSize: 1, CrossRank: rank, CrossSize: 2}}
	}
	return &elastic.Ring{Generation: generation, Term: 1, Members: []elastic.Member{member("h", 0, 1), member("i", 1, 0)}}
}

func (r *rig) join(generation uint64) host.Exchange {
	r.t.Helper()
	x, err := r.f.Join(ring(generation))
	must.NoError(r.t, err)
	r.t.Cleanup(x.Close)
	return x
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newProcess(t, New(framework.Options{Host: "h", Mode: settings.ModeRestart, Replica: 2, Logger: hclog.NewNullLogger()}), nil)
	_, fixed := r.e.Environment(elastic.Assignment{Size: 2})
	must.Eq(t, "2", fixed["KOLO_REPLICA_SIZE"])
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defaults, fixed := r.e.Environment(elastic.Assignment{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, CrossRank: 1, CrossSize: 2})
	must.Eq(t, map[string]string{"GLOO_SOCKET_IFNAME": "eth1", "NCCL_SOCKET_IFNAME": "eth1", "USE_LIBUV": "0",
		"GLOO_ENABLE_STORE_V2_API": "1"}, defaults)
	must.Eq(t, map[string]string{
		"KOLO_WORKER_ADDR": "127.0.0.1:" + strconv.Itoa(r.e.worker.Port()), "KOLO_WORKER_SECRET": r.e.worker.Secret(),
		"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": strconv.Itoa(r.e.store.Port()), "TORCHELASTIC_USE_AGENT_STORE": "True",
		"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
		"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
		"ROLE_NAME": "default", "ROLE_RANK": "3", "ROLE_WORLD_SIZE": "4",
	}, fixed)
	must.Eq(t, 32, len(fixed["KOLO_WORKER_SECRET"]))
}

func TestAProcessGetsItsPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	must.NoError(t, r.e.Notify(t.Context(), 0), must.Sprint("no one is there"))
	must.Eq(t, "welcome", r.connect("2.6.0+cpu")["type"].(string))
	r.say(`{"type":"ready","generation":0,"reason":"start"}`)
	r.happened("notifiable", "arrived false")
	x := r.join(4)
	r.e.Admit(4, ring(4).Members[0].Assignment)
	place := r.hear()
	must.Eq(t, "place", place["type"].(string))
	must.Eq(t, 4.0, place["generation"].(float64))
	must.Eq(t, []any{1.0}, place["newcomers"].([]any))

	// Its connection is lost before it has read the answer.
	r.connect("2.6.0")
	r.say(`{"type":"ready","generation":0,"reason":"start"}`)
	must.Eq(t, place, r.hear())
	r.happened()

	r.say(`{"type":"formed","generation":3}`)
	r.say(`{"type":"progress","generation":4,"step":7}`)
	r.happened("progress 4 7")
	must.False(t, x.Up(0), must.Sprint("formed was of another ring"))
	r.say(`{"type":"formed","generation":4}`)
	for !x.Up(0) {
		<-x.News()
	}

	must.NoError(t, r.e.Notify(t.Context(), 0))
	must.Eq(t, map[string]any{"type": "change", "generation": 4.0}, r.hear())
	r.e.Break(4)
	must.Eq(t, map[string]any{"type": "broken", "generation": 4.0}, r.hear())
	r.say(`{"type":"ready","generation":9,"reason":"commit"}`) // of no ring that it was in
	r.say(`{"type":"ready","generation":4,"reason":"failure"}`)
	r.say(`{"type":"ready","generation":4,"reason":"failure"}`)
	r.happened("waiting 4")
	r.join(5)
	r.e.Admit(5, ring(5).Members[0].Assignment)
	must.Eq(t, 5.0, r.hear()["generation"].(float64))
	r.happened()
}

// A process learns with its place whether it must not adapt its batch, and when that changes.
func TestAProcessKeepsItsBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.e.KeepBatch(true)
	r.connect("2.6.0")
	r.say(`{"type":"ready","generation":0,"reason":"start"}`)
	r.happened("notifiable", "arrived false")
	r.join(4)
	r.e.Admit(4, ring(4).Members[0].Assignment)
	must.True(t, r.hear()["keep_batch"].(bool))
	r.e.KeepBatch(true)
	r.e.KeepBatch(false)
	must.Eq(t, map[string]any{"type": "batch", "keep": false}, r.hear())

	r.connect("2.6.0")
	r.say(`{"type":"ready","generation":0,"reason":"start"}`)
	_, keeps := r.hear()["keep_batch"]
	must.False(t, keeps)
}

// A process without a next place gets the answer end, as often as it asks. A
// process with an older package does not understand end.
func TestAProcessRetires(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const hello = `{"type":"hello","version":1,"secret":"%s","torch":"2.6.0","ends":true}`
	connect := func() {
		r.dial()
		r.say(fmt.Sprintf(hello, r.env("KOLO_WORKER_SECRET")))
		must.Eq(t, "welcome", r.hear()["type"].(string))
	}
	connect()
	r.say(`{"type":"ready","generation":0,"reason":"start"}`)
	r.happened("notifiable", "arrived false")
	r.join(4)
	r.e.Admit(4, ring(4).Members[0].Assignment)
	must.Eq(t, "place", r.hear()["type"].(string))
	r.say(`{"type":"ready","generation":4,"reason":"commit"}`)
	r.happened("waiting 4")
	must.NoError(t, r.e.Retire(t.Context()))
	end := map[string]any{"type": "end", "generation": 4.0}
	must.Eq(t, end, r.hear())
	connect()
	r.say(`{"type":"ready","generation":4,"reason":"commit"}`)
	must.Eq(t, end, r.hear())
	r.happened()

	older := r.another(nil)
	must.Eq(t, "welcome", older.connect("2.6.0")["type"].(string))
	must.ErrorContains(t, older.e.Retire(t.Context()), "older")
}

// A connection to the store waits for the process's first place.
func TestTheStoreIsThatOfThePlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	early, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.e.Store(early)
	must.ErrorIs(t, err, context.Canceled)
	x, err := r.f.Join(&elastic.Ring{Generation: 1, Term: 1, Members: ring(1).Members[:1]})
	must.NoError(t, err)
	defer x.Close()
	r.e.Admit(1, elastic.Assignment{Size: 1, LocalSize: 1, CrossSize: 1})
	s, err := r.e.Store(t.Context())
	must.NoError(t, err)
	_, err = s.Do(t.Context(), store.Op{Kind: store.Set, Key: "k", Value: []byte("v")})
	must.NoError(t, err)
	got, err := s.Do(t.Context(), store.Op{Kind: store.Get, Key: "k"})
	must.NoError(t, err)
	must.Eq(t, "v", string(got.Value))
}

func TestBadProcessesAreExplained(t *testing.T) {
	t.Parallel()
	t.Run("an old PyTorch", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		must.Eq(t, "PyTorch 2.0.1 is too old: kolo.torch needs 2.1", r.connect("2.0.1")["message"].(string))
		r.happened("PyTorch 2.0.1 is too old")
	})
	t.Run("quoted at length", func(t *testing.T) {
		t.Parallel()
		for _, hello := range []string{`"version":` + strings.Repeat("7", 60000), `"version":2,"client":"` + strings.Repeat(`\u001b`, 10000) + `"`} {
			r := newRig(t, nil)
			r.dial()
			r.say(`{"type":"hello","secret":"` + r.env("KOLO_WORKER_SECRET") + `",` + hello + `}`)
			must.Eq(t, "error", r.hear()["type"].(string))
			must.Less(t, 2*plaintext.Limit, len(<-r.events))
		}
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		newRigOf(t, settings.ModeInProcess, func(l *limits) { l.silence = time.Millisecond }).happened("does the script call a function decorated with kolo.torch.elastic?")
	})
	t.Run("forms a group by itself", func(t *testing.T) {
		t.Parallel()
		r := newRigOf(t, settings.ModeInProcess, func(l *limits) { l.store = time.Millisecond })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = r.e.Store(ctx) }()
		r.happened("does the script call torch.distributed.init_process_group itself?")
	})
}
