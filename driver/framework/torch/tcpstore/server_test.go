// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
)

// The bytes are those that PyTorch's client sends and expects.
func TestServer_Frames(t *testing.T) {
	j := newJob(t, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{})
	c := connect(t, s)
	for _, tc := range []struct{ name, request, answer string }{
		{"validate", "00 cef7853c", ""},
		{"ping", "0d 01020304", "01020304"},
		{"set", "01 0100000000000000 61 0200000000000000 7879", ""},
		{"get", "03 0100000000000000 61", "0200000000000000 7879"},
		{"get missing", "03 0100000000000000 62", "0000000000000000"},
		{"compare_set", "02 0100000000000000 61 0200000000000000 7879 0100000000000000 7a", "0100000000000000 7a"},
		{"compare_set of another", "02 0100000000000000 61 0100000000000000 78 0100000000000000 77", "0100000000000000 7a"},
		{"compare_set missing", "02 0100000000000000 6d 0100000000000000 78 0100000000000000 77", "0100000000000000 78"},
		{"add", "04 0100000000000000 6e feffffffffffffff", "feffffffffffffff"},
		{"check", "05 0200000000000000 0100000000000000 61 0100000000000000 6e", "00"},
		{"check missing", "05 0100000000000000 0100000000000000 62", "01"},
		{"wait", "06 0100000000000000 0100000000000000 61", "00"},
		{"cancel", "0c", "01"},
		{"num_keys", "07", "0200000000000000"},
		{"list_keys", "11", "0200000000000000 0100000000000000 61 0100000000000000 6e"},
		{"delete_key", "08 0100000000000000 6e", "0100000000000000"},
		{"delete_key missing", "08 0100000000000000 6e", "0000000000000000"},
		{"append", "09 0100000000000000 61 0200000000000000 2121", ""},
		{"multi_set", "0b 0200000000000000 0100000000000000 62 0100000000000000 31 0100000000000000 63 0000000000000000", ""},
		{"multi_get", "0a 0300000000000000 0100000000000000 61 0100000000000000 62 0100000000000000 63",
			"0300000000000000 7a2121 0100000000000000 31 0000000000000000"},
		{"queue_push", "0e 0100000000000000 71 0100000000000000 35", ""},
		{"queue_len", "10 0100000000000000 71", "0100000000000000"},
		{"queue_pop", "0f 0100000000000000 71", "0100000000000000 0100000000000000 35"},
		{"queue_pop empty", "0f 0100000000000000 71", "0000000000000000"},
		{"barrier", "12 0100000000000000 65 0100000000000000", "00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.t = t
			_, err := c.conn.Write(unhex(t, tc.request))
			must.NoError(t, err)
			want := unhex(t, tc.answer)
			must.Eq(t, want, c.take(len(want)))
			c.open() // nothing else comes
		})
	}
	must.Eq(t, 0, s.Used())
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	must.NoError(t, err)
	return b
}

// Before the process has a place, its connection is accepted, but its requests wait until
// it has one.
func TestServer_Held(t *testing.T) {
	j := newJob(t, 1, 1)
	p := &process{placed: make(chan struct{}), store: j.client(0)}
	s := serve(t, p, tcpstore.Limits{})
	adder, waiter, patient := dial(t, s), dial(t, s), dial(t, s)
	for _, c := range []*client{adder, waiter, patient} {
		c.open()
	}
	adder.send(4, str("n"), i64(5))
	waiter.send(6, list("n"))
	waiter.send(12) // its timeout is over
	must.Eq(t, []byte{1}, waiter.take(1))
	patient.send(6, list("n"))
	close(p.placed)
	must.Eq(t, 5, adder.number())
	must.Eq(t, []byte{0}, patient.take(1))
}

// Waits end when their keys exist, no matter which host set them, or when they are
// canceled.
func TestServer_Wait(t *testing.T) {
	j := newJob(t, 1, 1)
	a, b := dial(t, serve(t, placed(j.client(0)), tcpstore.Limits{})), dial(t, serve(t, placed(j.client(1)), tcpstore.Limits{}))
	a.send(6, list("x", "y"))
	b.send(1, str("x"), str("1"))
	a.send(12)
	must.Eq(t, []byte{1}, a.take(1))
	a.send(6, list("x", "y"))
	b.send(1, str("y"), str("2"))
	must.Eq(t, []byte{0}, a.take(1))
	// A cancellation that comes too late is answered, too.
	a.send(12)
	must.Eq(t, []byte{1}, a.take(1))
	a.send(3, str("y"))
	must.Eq(t, "2", a.text())

	a.send(18, str("barrier"), i64(2))
	b.send(18, str("barrier"), i64(2))
	must.Eq(t, []byte{0}, a.take(1))
	must.Eq(t, []byte{0}, b.take(1))
}

// If several clients on several hosts wait for one value of a queue, one gets it, and the
// others wait for the next.
func TestServer_Pop(t *testing.T) {
	j := newJob(t, 2, 2)
	var clients []*client
	got := make(chan string)
	for rank := range 4 {
		c := dial(t, serve(t, placed(j.client(rank)), tcpstore.Limits{}))
		clients = append(clients, c)
		if rank == 0 {
			continue
		}
		c.send(6, list("q"))
		go func() {
			c.take(1)
			c.send(15, str("q"))
			if n := c.number(); n < 1 {
				t.Errorf("rank %d: the queue has %d values", rank, n)
			}
			got <- c.text()
		}()
	}
	for _, v := range []string{"one", "two", "three"} {
		clients[0].send(14, str("q"), str(v))
		must.Eq(t, v, <-got)
	}
	clients[0].send(15, str("q"))
	must.Eq(t, 0, clients[0].number())
}

// A client whose wait has ended may end, or give up, before it pops the value. The value
// then goes to another client.
func TestServer_PopGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(*client){
		"gone":     func(c *client) { must.NoError(t, c.conn.Close()) },
		"canceled": func(c *client) { c.send(12); must.Eq(t, []byte{1}, c.take(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 3)
			woken := make(chan *client)
			for rank := range 2 {
				c := dial(t, serve(t, placed(j.client(rank)), tcpstore.Limits{}))
				c.send(6, list("q"))
				go func() { c.take(1); woken <- c }()
			}
			time.Sleep(50 * time.Millisecond) // both wait by then, else this shows nothing
			pusher := dial(t, serve(t, placed(j.client(2)), tcpstore.Limits{}))
			pusher.send(14, str("q"), str("value"))
			giveUp(<-woken)
			other := <-woken
			other.send(15, str("q"))
			must.Eq(t, 1, other.number())
			must.Eq(t, "value", other.text())
		})
	}
}

// If a client ends in the middle of a wait, nothing remains of it, and its earlier requests
// are performed.
func TestServer_ClientEnds(t *testing.T) {
	j := newJob(t, 1, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{})
	c := dial(t, s)
	c.send(7)
	c.number() // it is admitted; a connection that closes before is reset, see gate.Listen
	c.send(1, str("last"), str("words"))
	c.send(6, list("never"))
	must.NoError(t, c.conn.Close())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return s.Open() == 0 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	_, err := j.client(1).Do(t.Context(), store.Op{Kind: store.Wait, Keys: []string{"last"}})
	must.NoError(t, err)
	must.Eq(t, 0, s.Used())
}

// When a ring ends, its pending waits and later requests are reset.
func TestServer_RingOver(t *testing.T) {
	j := newJob(t, 1, 1)
	s := serve(t, placed(j.client(0)), tcpstore.Limits{})
	waiter, idle := dial(t, s), dial(t, s)
	waiter.send(6, list("never"))
	idle.send(7)
	idle.number()
	j.close()
	waiter.ended()
	idle.send(7)
	idle.ended()
}

// Close ends waiting connections.
func TestServer_Close(t *testing.T) {
	j := newJob(t, 1)
	p := &process{placed: make(chan struct{}), store: j.client(0)}
	s := serve(t, p, tcpstore.Limits{})
	held, idle, silent := dial(t, s), dial(t, s), connect(t, s)
	held.send(7)
	idle.open()
	must.NoError(t, s.Close())
	for _, c := range []*client{held, idle, silent} {
		c.ended()
	}
}
