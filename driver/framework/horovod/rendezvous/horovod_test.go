// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
)

// job simulates the agents and the leader for the processes of one job, through a
// sequence of rings.
type job struct {
	mu    sync.Mutex
	rings []*jobRing
}

type jobRing struct {
	parties
	slots map[string]rendezvous.Slot // by process
}

// parties are the leader and the agents in the exchange of one ring.
type parties struct {
	collector *rendezvous.Collector
	stores    map[string]*rendezvous.Store // by host
}

func newParties() parties {
	return parties{collector: rendezvous.NewCollector(), stores: map[string]*rendezvous.Store{}}
}

// carry moves the messages between them.
func (p parties) carry() error {
	for host, store := range p.stores {
		fills, err := p.collector.Submit(host, store.Outgoing())
		if err != nil {
			return err
		}
		for _, f := range fills {
			for name, s := range p.stores {
				if f.Hosts == nil || slices.Contains(f.Hosts, name) {
					if err := s.Fill(f); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// add begins a ring with these processes, named host:number, as ranked.
func (j *job) add(t *testing.T, slots []rendezvous.Slot, processes ...string) {
	t.Helper()
	r := &jobRing{slots: map[string]rendezvous.Slot{}, parties: newParties()}
	for i, p := range processes {
		r.slots[p] = slots[i]
		if r.stores[slots[i].Host] == nil {
			r.stores[slots[i].Host] = storeOf(t, rendezvous.Members{Slots: slots}, slots[i].Host)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rings = append(j.rings, r)
}

func (j *job) carry(r *jobRing) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return r.carry()
}

// member answers one process; its ring is the newest when it asks for its rank.
type member struct {
	refuseAll
	job  *job
	name string
	ring *jobRing
}

func (m *member) store() (*rendezvous.Store, int) {
	s := m.ring.slots[m.name]
	return m.ring.stores[s.Host], s.Rank
}

func (m *member) Put(_ context.Context, scope, key string, value []byte) error {
	store, rank := m.store()
	if err := store.Put(rank, scope, key, value); err != nil {
		return err
	}
	return m.job.carry(m.ring)
}

func (m *member) Get(ctx context.Context, scope, key string) ([]byte, bool, error) {
	store, rank := m.store()
	return store.Get(ctx, rank, scope, key)
}

func (m *member) Delete(_ context.Context, scope, key string) error {
	store, rank := m.store()
	return store.Delete(rank, scope, key)
}

func (m *member) RankAndSize(context.Context) (rendezvous.Assignment, error) {
	m.job.mu.Lock()
	defer m.job.mu.Unlock()
	m.ring = m.job.rings[len(m.job.rings)-1]
	return m.ring.slots[m.name].Assignment, nil
}

// start runs a process with the environment that an agent gives it.
func (j *job) start(t *testing.T, python, name string) *script {
	t.Helper()
	j.mu.Lock()
	ring := j.rings[len(j.rings)-1]
	j.mu.Unlock()
	// Real processes are known as an agent knows its slots.
	gate := localpeer.NewTask(0, hclog.NewNullLogger()).NewGate()
	t.Cleanup(gate.Close)
	endpoint, err := rendezvous.Listen(&member{job: j, name: name, ring: ring}, gate, hclog.NewNullLogger())
	must.NoError(t, err)
	t.Cleanup(func() { _ = endpoint.Close() })
	s := ring.slots[name]
	for variable, value := range map[string]string{
		"HOROVOD_HOSTNAME": s.Host, "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
		"HOROVOD_GLOO_RENDEZVOUS_PORT": strconv.Itoa(endpoint.Port()), "HOROVOD_GLOO_IFACE": "lo",
		"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_ELASTIC": "1",
		"HOROVOD_RANK": strconv.Itoa(s.Rank), "HOROVOD_SIZE": strconv.Itoa(s.Size),
		"HOROVOD_LOCAL_RANK": strconv.Itoa(s.LocalRank), "HOROVOD_LOCAL_SIZE": strconv.Itoa(s.LocalSize),
		"HOROVOD_CROSS_RANK": strconv.Itoa(s.CrossRank), "HOROVOD_CROSS_SIZE": strconv.Itoa(s.CrossSize),
		"HOROVOD_DYNAMIC_PROCESS_SETS": "1", "OMP_NUM_THREADS": "1",
	} {
		t.Setenv(variable, value) // the process takes it from here
	}
	return startScript(t, python, "horovod_ring.py")
}

// Three real processes on two hosts form a ring, make a process set of their own
// twice, and continue as two.
func TestHorovod_Rings(t *testing.T) {
	python := os.Getenv("KOLO_PYTHON")
	if python == "" {
		t.Skip("needs KOLO_PYTHON, a Python that can import horovod")
	}
	if out, err := exec.Command(python, "-c", "import horovod.torch").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("%s cannot import horovod.torch: %s", python, lines[len(lines)-1])
	}
	type line struct {
		Rank, Size, Total int
		LocalRank         int `json:"local_rank"`
		CrossSize         int `json:"cross_size"`
		Totals            []int
	}
	read := func(s *script) (l line) {
		must.NoError(t, json.Unmarshal([]byte(s.line()), &l))
		return l
	}
	command := func(s *script, word string) {
		_, err := s.stdin.Write([]byte(word + "\n"))
		must.NoError(t, err)
	}
	j := &job{}
	three := ringsim.Slots(2, 1)
	j.add(t, three, "a0", "a1", "b0")
	a0, a1, b0 := j.start(t, python, "a0"), j.start(t, python, "a1"), j.start(t, python, "b0")
	must.Eq(t, line{Rank: 0, Size: 3, LocalRank: 0, CrossSize: 2, Total: 6}, read(a0))
	must.Eq(t, line{Rank: 1, Size: 3, LocalRank: 1, CrossSize: 1, Total: 6}, read(a1))
	must.Eq(t, line{Rank: 2, Size: 3, LocalRank: 0, CrossSize: 2, Total: 6}, read(b0))

	for _, p := range []*script{a0, a1, b0} {
		command(p, "set")
	}
	must.Eq(t, []int{3, 3}, read(a0).Totals)
	must.Eq(t, []int{3, 3}, read(a1).Totals)
	must.Eq(t, []int{}, read(b0).Totals)

	// b0 becomes rank 0 of the next ring; a1 is not in it.
	two := ringsim.Slots(1, 1)
	two[0].Host, two[1].Host = "h1", "h0"
	j.add(t, two, "b0", "a0")
	command(b0, "reset")
	command(a0, "reset")
	must.NoError(t, a1.stdin.Close())
	must.Eq(t, line{Rank: 0, Size: 2, LocalRank: 0, CrossSize: 2, Total: 3}, read(b0))
	must.Eq(t, line{Rank: 1, Size: 2, LocalRank: 0, CrossSize: 2, Total: 3}, read(a0))
}
