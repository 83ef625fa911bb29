// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// A slot that keeps sending addresses does not fill its agent's memory.
func TestHandlerRemembersABoundedNumberOfAddresses(t *testing.T) {
	h := &handler{}
	h.admit(&placement{})
	for block := range 200 {
		blob := make([]byte, 1000*blobEntry)
		for i := range 1000 {
			entry := blob[i*blobEntry:]
			binary.LittleEndian.PutUint16(entry, unix.AF_INET)
			binary.BigEndian.PutUint16(entry[2:], uint16(i+1))
			entry[4], entry[5] = 10, byte(block)
		}
		h.remember("0", blob, false)
	}
	addrs, _ := h.Connections()
	must.Eq(t, maxAddresses, len(addrs))
}

// A process reports only its own listening addresses. If each reported all that it has
// read, the leader of 1,000 ranks would get a million addresses.
func TestListeningIsWhereTheProcessItselfListens(t *testing.T) {
	at := func(last byte) []byte {
		entry := make([]byte, blobEntry)
		binary.LittleEndian.PutUint16(entry, unix.AF_INET)
		binary.BigEndian.PutUint16(entry[2:], 3000)
		entry[4], entry[7] = 10, last
		return entry
	}
	h := &handler{}
	h.admit(&placement{generation: 1})
	h.remember("0", at(1), true)
	for other := range byte(50) {
		h.remember("1", at(2+other), false)
	}
	own, generation := h.Listening()
	must.Eq(t, "[10.0.0.1:3000]", fmt.Sprint(own))
	must.Eq(t, 1, generation)
	known, _ := h.Connections()
	must.MapLen(t, 51, known)
	h.admit(&placement{generation: 2})
	own, generation = h.Listening()
	must.SliceEmpty(t, own)
	must.Eq(t, 2, generation)
}

// FuzzHandler: a process that sends any requests in any order gets an answer or an error,
// with a ring and without.
func FuzzHandler(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 1, 3, 0, 0, 2, 0, 0, 4, 0, 0})
	f.Add([]byte{5, 0, 0, 0, 1, 2, 4, 0, 0, 5, 0, 0, 0, 0, 0})
	scopes := []string{"global", "local_h", "cross_0", "global_process_set_hash_a", "user"}
	keys := []string{"0", "rank_0", "1", "-1", "word"}
	f.Fuzz(func(t *testing.T, program []byte) {
		h := &handler{events: host.Events{Arrived: func(bool) {}, Waiting: func(uint64) {}, Notifiable: func() {}}}
		alone := rendezvous.Assignment{Size: 1, LocalSize: 1, CrossSize: 1}
		for generation := uint64(1); len(program) >= 3; program = program[3:] {
			scope, key := scopes[int(program[1])%len(scopes)], keys[int(program[2])%len(keys)]
			var err error
			switch program[0] % 6 {
			case 0:
				err = h.Put(expired(), scope, key, bytes.Repeat(program[:1], int(program[2])*blobEntry))
			case 1:
				_, _, err = h.Get(expired(), scope, key)
			case 2:
				err = h.Delete(expired(), scope, key)
			case 3:
				_, err = h.RankAndSize(expired())
			case 4:
				err = h.WorkerAddress(expired(), rendezvous.NotifyTarget{Port: 1})
			default:
				store, newErr := rendezvous.NewStore(rendezvous.Members{Slots: []rendezvous.Slot{{Host: "h", Assignment: alone}}, Local: []int{0}})
				must.NoError(t, newErr)
				h.admit(&placement{generation: generation, assignment: elastic.Assignment(alone), store: store})
				generation++
			}
			_ = err // any error is an answer
			addrs, _ := h.Connections()
			must.LessEq(t, maxAddresses, len(addrs))
		}
	})
}

// expired returns a context that has ended, so that calls that would wait fail at once.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A surrogate connects the others, and is kept waiting before it could broadcast.
func TestASurrogateNeverLeavesTheLastMesh(t *testing.T) {
	alone := rendezvous.Assignment{Size: 1, LocalSize: 1, CrossSize: 1}
	for _, surrogate := range []bool{false, true} {
		store, err := rendezvous.NewStore(rendezvous.Members{Slots: []rendezvous.Slot{{Host: "h", Assignment: alone}}, Local: []int{0}, Meshes: 3})
		must.NoError(t, err)
		h := &handler{surrogate: surrogate, events: host.Events{Arrived: func(bool) {}}}
		h.admit(&placement{generation: 1, assignment: elastic.Assignment(alone), store: store})
		for _, mesh := range []string{"global", "local_h", "cross_0"} {
			must.NoError(t, h.Put(t.Context(), mesh, "0", nil))
			err = h.Delete(t.Context(), mesh, "0")
			must.Eq(t, surrogate && mesh == "cross_0", errors.Is(err, rendezvous.ErrHold), must.Sprint(mesh))
		}
	}
}
