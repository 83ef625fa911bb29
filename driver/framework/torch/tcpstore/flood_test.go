// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore_test

import (
	"bytes"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
)

// Connections that violate TCPStore's protocol, or a bound, are reset, and the server
// survives.
func TestServer_Refuses(t *testing.T) {
	j := newJob(t, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{})
	long := string(make([]byte, store.MaxKey+1))
	for name, tc := range map[string]struct {
		command byte
		fields  [][]byte
	}{
		"unknown command":      {99, nil},
		"validate again":       {0, [][]byte{u32(0x3C85F7CE)}},
		"long key":             {3, [][]byte{str(long)}},
		"negative length":      {3, [][]byte{i64(-1)}},
		"huge key":             {3, [][]byte{i64(math.MaxInt64)}},
		"huge value":           {1, [][]byte{str("k"), i64(1 << 40)}},
		"value above":          {1, [][]byte{str("k"), i64(store.MaxValue + 1)}},
		"too many keys":        {6, [][]byte{i64(store.MaxKeys + 1)}},
		"huge list":            {10, [][]byte{i64(math.MaxInt64)}},
		"huge set of lists":    {11, [][]byte{i64(-1)}},
		"add to what is none":  {4, [][]byte{str("text"), i64(1)}},
		"another during wait":  {6, [][]byte{list("never"), {7}}},
		"more than an op has":  {2, [][]byte{str("k"), str(string(make([]byte, store.MaxValue))), str(string(make([]byte, store.MaxValue)))}},
		"value of another key": {18, [][]byte{str("text"), i64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			c.send(1, str("text"), str("x"))
			c.open()
			c.send(tc.command, tc.fields...)
			c.ended()
		})
	}
	for name, first := range map[string][]byte{
		"no validation": append([]byte{7}, u32(0)...), "wrong number": append([]byte{0}, u32(1)...), "HTTP": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, s)
			c.send(first[0], first[1:])
			c.ended()
		})
	}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return s.Open() == 0 && s.Used() == 0 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	dial(t, s).open()
}

// A length alone does not allocate memory.
func TestRequest_Lengths(t *testing.T) {
	headers := map[byte][]byte{
		1: append(str("k"), i64(store.MaxValue)...), 3: i64(store.MaxKey), 6: i64(store.MaxKeys), 11: i64(store.MaxKeys),
	}
	for command, header := range headers {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			_, used, err := tcpstore.ReadRequest(command, bytes.NewReader(header), 1<<30)
			must.Error(t, err)
			must.Eq(t, 0, used)
		}
		runtime.ReadMemStats(&after)
		must.Less(t, 100*(512<<10), after.TotalAlloc-before.TotalAlloc, must.Sprintf("command %d", command))
	}
}

// Connections beyond the limit are reset, and displace no open ones.
func TestServer_ManyConnections(t *testing.T) {
	j := newJob(t, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{Conns: 4})
	var open []*client
	for range 4 {
		c := dial(t, s)
		c.open()
		open = append(open, c)
	}
	for range 500 {
		conn, err := net.Dial("tcp4", addrOf(s))
		if err != nil {
			continue // reset already
		}
		c := &client{t: t, conn: conn}
		c.send(0, u32(0x3C85F7CE), []byte{13}, u32(1))
		c.ended()
		must.NoError(t, conn.Close())
	}
	for _, c := range open {
		c.open()
		must.NoError(t, c.conn.Close())
	}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return s.Open() == 0 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	dial(t, s).open()
}

// The requests of all connections together have a bound.
func TestServer_ManyBytes(t *testing.T) {
	j := newJob(t, 1)
	p := &process{placed: make(chan struct{}), store: j.client(0)}
	s := serve(t, p, tcpstore.Limits{Bytes: 1 << 20})
	value := string(make([]byte, 700<<10))
	first, second := dial(t, s), dial(t, s)
	first.send(1, str("k"), str(value)) // held
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return s.Used() > 700<<10 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	second.send(1, str("k"), str(value))
	second.ended()
	close(p.placed)
	first.open()
	must.Eq(t, 0, s.Used())
}

// A slow request is given up; an idle connection is not.
func TestServer_SlowSenders(t *testing.T) {
	j := newJob(t, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{Validate: time.Second, Transfer: time.Second})
	idle := dial(t, s)
	idle.open()
	silent, slow := connect(t, s), dial(t, s)
	slow.send(1, str("k"), i64(100), []byte("only a part"))
	silent.ended()
	slow.ended()
	idle.open()
}

// A client that reads no answers is given up.
func TestServer_SlowTakers(t *testing.T) {
	j := newJob(t, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{Transfer: time.Second})
	_, err := j.client(0).Do(t.Context(), store.Op{Kind: store.Set, Key: "k", Value: make([]byte, store.MaxValue)})
	must.NoError(t, err)
	c := dial(t, s)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = "k"
	}
	c.send(10, list(keys...))
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return s.Open() == 0 }), wait.Timeout(timeout)))
}

// Peers that the gate refuses are reset before anything is read, and displace no admitted
// connection.
func TestServer_Gate(t *testing.T) {
	const foreigners = 300
	j := newJob(t, 1)
	callers := &intrudertest.Callers{}
	s, err := tcpstore.ListenLimits(placed(j.client(0)), callers, hclog.NewNullLogger(), tcpstore.Limits{Conns: 1})
	must.NoError(t, err)
	defer func() { must.NoError(t, s.Close()) }()
	dialer := intrudertest.Dialer()
	for range foreigners {
		conn, err := dialer.Dial("tcp4", addrOf(s))
		if err != nil {
			continue // reset already
		}
		defer conn.Close()
		c := &client{t: t, conn: conn}
		c.send(0, u32(0x3C85F7CE), []byte{1}, str("forged"), str("x"))
		answer, _ := io.ReadAll(conn)
		must.SliceEmpty(t, answer)
	}
	c := dial(t, s)
	c.send(5, list("forged"))
	must.Eq(t, []byte{1}, c.take(1))
	must.Eq(t, foreigners, callers.Refused.Load())
}

// FuzzRequest: whatever is sent, a request is within its bounds, and a refused one uses
// none of the budget.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][]byte{
		append([]byte{1}, append(str("key"), str("value")...)...), append([]byte{6}, list("a", "b")...),
		append([]byte{4}, append(str("n"), i64(-1)...)...), append([]byte{11}, append(i64(1), append(str("k"), str("v")...)...)...),
		append([]byte{2}, append(str("k"), append(str("old"), str("new")...)...)...), {7}, {12}, append([]byte{13}, u32(1)...),
		append([]byte{3}, i64(math.MaxInt64)...), append([]byte{10}, i64(-1)...), append([]byte{18}, append(str("b"), i64(4)...)...),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		const most = 1 << 20
		op, used, err := tcpstore.ReadRequest(b[0], bytes.NewReader(b[1:]), most)
		if err != nil {
			must.Eq(t, 0, used)
			return
		}
		must.LessEq(t, most, used)
		must.LessEq(t, store.MaxKey, len(op.Key))
		must.LessEq(t, store.MaxValue, len(op.Value))
		must.LessEq(t, store.MaxKeys, len(op.Keys)+len(op.Pairs))
		must.LessEq(t, len(b), len(op.Key)+len(op.Value)+len(op.Expected))
	})
}
