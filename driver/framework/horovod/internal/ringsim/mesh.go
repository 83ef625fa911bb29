// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ringsim

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// addressBytes is the size of one Gloo address.
const addressBytes = 136

// Slots returns the members of a ring on hosts h0, h1, …, with the given numbers of slots,
// ranked as Horovod ranks them.
func Slots(perHost ...int) []rendezvous.Slot { return Led(0, perHost...) }

// Led returns the same as Slots, but with local rank lead first on each host. Horovod uses
// such an order after slot 0 of each host was restarted.
func Led(lead int, perHost ...int) []rendezvous.Slot {
	size := 0
	crossSize := map[int]int{}
	for _, n := range perHost {
		size += n
		for lr := range n {
			crossSize[lr]++
		}
	}
	var slots []rendezvous.Slot
	crossRank := map[int]int{}
	for h, n := range perHost {
		order := []int{lead}
		for lr := range n {
			if lr != lead {
				order = append(order, lr)
			}
		}
		for _, lr := range order {
			slots = append(slots, rendezvous.Slot{
				Host: "h" + strconv.Itoa(h),
				Assignment: rendezvous.Assignment{
					Rank: len(slots), Size: size,
					LocalRank: lr, LocalSize: n,
					CrossRank: crossRank[lr], CrossSize: crossSize[lr],
				},
			})
			crossRank[lr]++
		}
	}
	return slots
}

// Mesh is one slot's part in building one mesh.
type Mesh struct {
	Scope       string
	Index, Size int
}

// Meshes returns the meshes of one initialisation of a rank. set is the hash of process set
// 0; without it there are three meshes, as before Horovod 0.23. The meshes of a process set
// use the slot's position on its host in rank order, and the other meshes use its local
// rank (GlooContext::InitializeForProcessSet).
func Meshes(slots []rendezvous.Slot, rank int, set string) []Mesh {
	s := slots[rank]
	out := []Mesh{
		{"global", s.Rank, s.Size},
		{"local_" + s.Host, s.LocalRank, s.LocalSize},
		{"cross_" + strconv.Itoa(s.LocalRank), s.CrossRank, s.CrossSize},
	}
	if set == "" {
		return out
	}
	position := 0
	for _, o := range slots[:rank] {
		if o.Host == s.Host {
			position++
		}
	}
	suffix := "_process_set_hash_" + set
	return append(out,
		Mesh{"global" + suffix, s.Rank, s.Size},
		Mesh{"local_" + s.Host + suffix, position, s.LocalSize},
		Mesh{"cross_" + strconv.Itoa(position) + suffix, s.CrossRank, s.CrossSize})
}

// Blob returns the blob that member index of a mesh writes; seed distinguishes rings.
func Blob(m Mesh, index int, seed string) []byte {
	line := fmt.Sprintf("%s/%s/%d;", seed, m.Scope, index)
	return bytes.Repeat([]byte(line), (m.Size-1)*addressBytes/len(line)+1)[:(m.Size-1)*addressBytes]
}

// Build does what Gloo does to build one mesh, and checks the blobs that it reads. barrier
// stands for the members' first collective over their new connections.
func Build(ctx context.Context, c Client, m Mesh, seed string, barrier func(context.Context, Mesh) error) error {
	prefix := "/" + m.Scope + "/"
	own := strconv.Itoa(m.Index)
	if _, _, err := c.Do(ctx, "PUT", prefix+"rank_"+own, "machine"); err != nil {
		return err
	}
	for i := range m.Index {
		if _, _, err := c.Do(ctx, "GET", prefix+"rank_"+strconv.Itoa(i), ""); err != nil {
			return err
		}
	}
	if _, _, err := c.Do(ctx, "PUT", prefix+own, string(Blob(m, m.Index, seed))); err != nil {
		return err
	}
	for i := range m.Size {
		if i == m.Index {
			continue
		}
		path := prefix + strconv.Itoa(i)
		if err := c.Wait(ctx, path); err != nil {
			return err
		}
		_, blob, err := c.Do(ctx, "GET", path, "")
		if err != nil {
			return err
		}
		if !bytes.Equal(blob, Blob(m, i, seed)) {
			return fmt.Errorf("member %d of %s read a blob of %d that is not its own", m.Index, m.Scope, i)
		}
	}
	if err := barrier(ctx, m); err != nil {
		return err
	}
	_, _, err := c.Do(ctx, "DELETE", prefix+own, "")
	return err
}

// Initialize builds all meshes of all slots at once, each slot in a goroutine
// of its own. client returns the client of a rank.
func Initialize(ctx context.Context, slots []rendezvous.Slot, set, seed string, client func(rank int) Client) error {
	var b barriers
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range slots {
		group.Go(func() error {
			for _, m := range Meshes(slots, s.Rank, set) {
				if err := Build(ctx, client(s.Rank), m, seed, b.wait); err != nil {
					return fmt.Errorf("rank %d: %w", s.Rank, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// barriers holds one barrier for each mesh.
type barriers struct {
	mu   sync.Mutex
	open map[string]*barrier
}

type barrier struct {
	waiting int
	done    chan struct{}
}

func (b *barriers) wait(ctx context.Context, m Mesh) error {
	b.mu.Lock()
	if b.open == nil {
		b.open = map[string]*barrier{}
	}
	w := b.open[m.Scope]
	if w == nil {
		w = &barrier{done: make(chan struct{})}
		b.open[m.Scope] = w
	}
	w.waiting++
	if w.waiting == m.Size {
		close(w.done)
		delete(b.open, m.Scope)
	}
	b.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
