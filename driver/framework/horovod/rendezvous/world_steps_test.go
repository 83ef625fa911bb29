// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// stepProcess makes a process take its next step, if it can.
func (w *world) stepProcess(p *process) (moved bool, err error) {
	if p.dead || p.at == len(p.meshes) {
		return false, nil
	}
	m, id, store := p.meshes[p.at], p.ids[p.at], w.storeOf(p.rank)
	own := strconv.Itoa(m.Index)
	switch {
	case p.step == 0:
		err = store.Put(p.rank, m.Scope, "rank_"+own, []byte("vm"))
	case p.step == 1:
		if w.written[id] == nil {
			w.written[id] = map[int]string{}
		}
		w.written[id][m.Index] = w.blob(p)
		err = store.Put(p.rank, m.Scope, own, []byte(w.blob(p)))
	case p.step < 2+m.Size:
		if peer := p.step - 2; peer != m.Index {
			moved, err := w.read(p, m, id, peer)
			if !moved || err != nil {
				return moved, err
			}
		}
		if p.step == 1+m.Size {
			w.waiting[id]++
		}
	case w.waiting[id] < m.Size:
		return false, nil
	default:
		if err := store.Delete(p.rank, m.Scope, own); err != nil {
			return false, err
		}
		p.at, p.step = p.at+1, -1
	}
	p.step++
	return true, err
}

// read checks a peer's blob.
func (w *world) read(p *process, m ringsim.Mesh, id string, peer int) (bool, error) {
	value, found, err := w.storeOf(p.rank).Get(expired(), p.rank, m.Scope, strconv.Itoa(peer))
	switch {
	case errors.Is(err, context.Canceled):
		return false, nil
	case err != nil:
		return false, err
	case !found:
		return false, fmt.Errorf("rank %d: blob %d of %s was not held", p.rank, peer, id)
	}
	if string(value) != w.written[id][peer] {
		return false, fmt.Errorf("rank %d read %q as blob %d of %s, which is %q", p.rank, value, peer, id, w.written[id][peer])
	}
	if !strings.Contains(m.Scope, "user") && len(w.written[id]) < m.Size {
		return false, fmt.Errorf("rank %d read %s when only %d of %d had written", p.rank, id, len(w.written[id]), m.Size)
	}
	w.reads[string(value)] = true
	return true, nil
}

func (w *world) stepAgent(host string) (bool, error) {
	puts := w.stores[host].Outgoing()
	if len(puts) == 0 {
		return false, nil
	}
	for _, p := range puts {
		if strings.HasPrefix(p.Scope, "local_") || len(w.hosts) == 1 && p.Size > 0 {
			return false, fmt.Errorf("%s of %s goes to the leader", p.Scope, host)
		}
	}
	w.toLeader[host] = append(w.toLeader[host], message{puts: puts})
	return true, nil
}

func (w *world) stepToLeader(host string) (bool, error) {
	if len(w.toLeader[host]) == 0 {
		return false, nil
	}
	m := w.toLeader[host][0]
	if m.withdraw != nil && w.restoring() {
		// A new leader does not know yet what was read, and reports so.
		if len(m.withdraw.puts) > 0 && !w.collector.Withdraw(m.withdraw.puts) {
			return false, errors.New("a new leader judges too early")
		}
		return false, nil
	}
	w.toLeader[host] = w.toLeader[host][1:]
	var fills []wire.Fill
	var err error
	switch {
	case m.withdraw != nil:
		return true, w.withdrawn(m.withdraw)
	case m.snapshot != nil:
		fills, err = w.collector.Restore(host, *m.snapshot)
	default:
		fills, err = w.collector.Submit(host, m.puts)
	}
	for _, f := range fills {
		for _, h := range w.hosts {
			if f.Hosts == nil || slices.Contains(f.Hosts, h) {
				w.toHost[h] = append(w.toHost[h], f)
			}
		}
	}
	return true, err
}

// restoring reports whether some agent has yet to send the new leader its snapshot.
func (w *world) restoring() bool {
	for _, h := range w.hosts {
		if slices.ContainsFunc(w.toLeader[h], func(m message) bool { return m.snapshot != nil }) {
			return true
		}
	}
	return false
}

func (w *world) stepToHost(host string) (bool, error) {
	if len(w.toHost[host]) == 0 {
		return false, nil
	}
	f := w.toHost[host][0]
	w.toHost[host] = w.toHost[host][1:]
	return true, w.stores[host].Fill(f)
}

// moveLeader loses the messages on their way. Each agent sends the new leader its
// snapshot, and after that repeats a withdrawal that was not answered.
func (w *world) moveLeader() {
	w.collector = rendezvous.NewCollector()
	w.collector.Expect(w.hosts)
	for _, h := range w.hosts {
		snapshot := w.stores[h].Snapshot()
		queue := []message{{snapshot: &snapshot}}
		for _, m := range w.toLeader[h] {
			if m.withdraw != nil {
				queue = append(queue, m)
			}
		}
		w.toLeader[h], w.toHost[h] = queue, nil
	}
}

// kill ends a process, and restarts it in its place if no one can know of it.
func (w *world) kill(p *process) error {
	if p.dead || p.at == len(p.meshes) {
		return nil
	}
	puts, visible := w.storeOf(p.rank).Withdraw(p.rank)
	if visible {
		return w.broken(p)
	}
	p.dead = true
	host := w.slots[p.rank].Host
	// The agent's messages stay in order: what it has sent before is first.
	w.toLeader[host] = append(w.toLeader[host], message{withdraw: &withdrawal{p.rank, puts}})
	return nil
}

// withdrawn handles the leader's answer about a dead process.
func (w *world) withdrawn(d *withdrawal) error {
	p := w.processes[d.rank]
	if w.collector.Withdraw(d.puts) {
		return w.broken(p)
	}
	for at, m := range p.meshes[:min(p.at+1, len(p.meshes))] {
		if at == p.at && p.step < 2 {
			continue
		}
		if blob := fmt.Sprintf("%s of %d, life %d", p.ids[at], p.rank, p.life); w.reads[blob] {
			return fmt.Errorf("rank %d starts again after its blob of %s was read", p.rank, p.ids[at])
		}
		delete(w.written[p.ids[at]], m.Index)
		if m.Size == 1 {
			delete(w.waiting, p.ids[at])
		}
	}
	next := w.process(p.rank)
	next.life = p.life + 1
	w.processes[p.rank] = next
	return nil
}

// broken checks that a mesh of the dead process was complete.
func (w *world) broken(p *process) error {
	for at, m := range p.meshes[:min(p.at+1, len(p.meshes))] {
		if m.Size > 1 && len(w.written[p.ids[at]]) == m.Size {
			return errBroken
		}
	}
	return fmt.Errorf("rank %d is reported visible, but no mesh of it was complete", p.rank)
}
