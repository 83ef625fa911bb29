// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
)

// timeout is far longer than anything here takes.
const timeout = time.Minute

// anyPeer admits everyone.
type anyPeer struct{}

func (anyPeer) Admit(netip.AddrPort, netip.AddrPort) error { return nil }

// job has the replicas of one ring and carries what they and the leader exchange.
type job struct {
	mu        sync.Mutex
	ring      *elastic.Ring
	sequencer *store.Sequencer
	replicas  map[elastic.HostID]*store.Replica
}

// newJob begins a ring with so many processes on each host.
func newJob(t *testing.T, perHost ...int) *job {
	t.Helper()
	j := &job{ring: &elastic.Ring{Generation: 1}, sequencer: store.NewSequencer(), replicas: map[elastic.HostID]*store.Replica{}}
	for h, n := range perHost {
		for l := range n {
			slot := elastic.SlotID{Host: elastic.HostID("h" + strconv.Itoa(h)), Local: l}
			j.ring.Members = append(j.ring.Members, elastic.Member{Proc: elastic.Proc{Slot: slot, Incarnation: 1},
				Assignment: elastic.Assignment{Rank: len(j.ring.Members), LocalRank: l, LocalSize: n}})
		}
	}
	var carried sync.WaitGroup
	for _, h := range j.ring.Hosts() {
		r, err := store.NewReplica(h, j.ring)
		must.NoError(t, err)
		j.replicas[h] = r
	}
	for h, r := range j.replicas {
		carried.Go(func() {
			for range r.News() {
				j.carry(t, h)
			}
		})
	}
	t.Cleanup(func() { j.close(); carried.Wait() })
	return j
}

// close ends the ring.
func (j *job) close() {
	for _, r := range j.replicas {
		r.Close()
	}
}

func (j *job) carry(t *testing.T, h elastic.HostID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	puts := j.replicas[h].Outgoing()
	if len(puts) == 0 {
		return
	}
	fills, err := j.sequencer.Submit(string(h), puts)
	if err != nil {
		t.Error(err)
	}
	for _, f := range fills {
		for to, r := range j.replicas {
			if slices.Contains(f.Hosts, string(to)) {
				if err := r.Fill(f); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func (j *job) client(rank int) *store.Client {
	return j.replicas[j.ring.Members[rank].Proc.Slot.Host].Client(rank)
}

// process is a process that gets its place when the test says so.
type process struct {
	placed chan struct{}
	store  tcpstore.Store
}

func (p *process) Store(ctx context.Context) (tcpstore.Store, error) {
	select {
	case <-p.placed:
		return p.store, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// placed returns a process that has its place.
func placed(s tcpstore.Store) *process {
	p := &process{placed: make(chan struct{}), store: s}
	close(p.placed)
	return p
}

func serve(t testing.TB, p tcpstore.Process, limits tcpstore.Limits) *tcpstore.Server {
	t.Helper()
	s, err := tcpstore.ListenLimits(p, anyPeer{}, hclog.NewNullLogger(), limits)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, s.Close()) })
	return s
}

// client sends and receives the same as TCPStore's client.
type client struct {
	t    testing.TB
	conn net.Conn
}

// dial connects and validates, as every client does first.
func dial(t testing.TB, s *tcpstore.Server) *client {
	t.Helper()
	c := connect(t, s)
	c.send(0, u32(0x3C85F7CE))
	return c
}

func connect(t testing.TB, s *tcpstore.Server) *client {
	t.Helper()
	conn, err := net.Dial("tcp4", addrOf(s))
	must.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	return &client{t: t, conn: conn}
}

func addrOf(s *tcpstore.Server) string { return "127.0.0.1:" + strconv.Itoa(s.Port()) }

func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func i64(n int64) []byte  { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
func str(s string) []byte { return append(i64(int64(len(s))), s...) }

func list(keys ...string) []byte {
	b := i64(int64(len(keys)))
	for _, k := range keys {
		b = append(b, str(k)...)
	}
	return b
}

// send sends a command. The server may have reset the connection.
func (c *client) send(command byte, fields ...[]byte) {
	_, _ = c.conn.Write(append([]byte{command}, slices.Concat(fields...)...))
}

// take takes an answer of n bytes.
func (c *client) take(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(c.conn, b)
	must.NoError(c.t, err)
	return b
}

func (c *client) number() int64 { return int64(binary.LittleEndian.Uint64(c.take(8))) }

func (c *client) text() string { return string(c.take(int(c.number()))) }

// ended waits until the server has ended the connection, without another byte.
func (c *client) ended() {
	c.t.Helper()
	_, err := c.conn.Read(make([]byte, 1))
	must.Error(c.t, err)
	var network net.Error
	must.False(c.t, errors.As(err, &network) && network.Timeout(), must.Sprint("the connection is still open"))
}

// open waits until the server has performed all that was sent.
func (c *client) open() {
	c.t.Helper()
	c.send(13, u32(7))
	must.Eq(c.t, u32(7), c.take(4))
}
