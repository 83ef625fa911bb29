// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"errors"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// Names that the fuzzer picks from: of meshes, of the user's sets, and odd.
var (
	fuzzScopes = []string{
		"global", "local_h0", "local_h1", "cross_0", "cross_1",
		"global_process_set_hash_a", "cross_0_process_set_hash_a", "local_h0_process_set_hash_b",
		"global_process_set_hash_b", "_process_set_hash_", "local_", "cross_-1", "x",
	}
	fuzzKeys = []string{"0", "1", "2", "00", "-1", "99999999999999999999", "rank_0", "rank_", "word"}
)

// FuzzStore: a process sends anything in any order, and a leader answers anything.
// Nothing breaks, and no blob of a mesh is handed out before all are in.
func FuzzStore(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 4, 0, 0, 0, 3, 0, 0, 0})
	f.Add([]byte{0, 0, 5, 0, 0, 1, 5, 1, 4, 0, 5, 0, 5, 0, 0, 0, 0, 0, 8, 0, 3, 0, 8, 0})
	f.Add([]byte{0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0, 1, 12, 8, 1, 1, 12, 8})
	f.Fuzz(func(t *testing.T, program []byte) {
		slots := ringsim.Slots(2, 1)
		s, err := rendezvous.NewStore(rendezvous.Members{Slots: slots, Local: []int{0, 1}})
		must.NoError(t, err)
		filled := false
		for ; len(program) >= 4; program = program[4:] {
			rank := int(program[1] % 4) // 2 and 3 are not of this host
			scope := fuzzScopes[int(program[2])%len(fuzzScopes)]
			key := fuzzKeys[int(program[3])%len(fuzzKeys)]
			switch program[0] % 8 {
			case 0:
				err = s.Put(rank, scope, key, program[:1])
			case 1:
				err = s.Put(rank, scope, key, nil)
			case 2:
				_, found, getErr := s.Get(expired(), rank, scope, key)
				if found && scope == "global" && key == "1" {
					must.True(t, filled, must.Sprint("a blob is out before the leader had all"))
				}
				err = getErr
			case 3:
				err = s.Delete(rank, scope, key)
			case 4:
				for _, p := range s.Outgoing() {
					must.StrNotHasPrefix(t, "local_h0", p.Scope)
				}
			case 5:
				filled = true
				err = s.Fill(wire.Fill{Scope: scope, Complete: program[1]%2 == 0, Values: values("0", "a", "1", "b", key, "c")})
			case 6:
				_, visible := s.Withdraw(rank)
				must.False(t, visible && rank > 1)
			default:
				s.Initialized(rank)
				_ = s.Snapshot()
				must.False(t, s.Up(rank) && !s.Arrived(rank))
			}
			must.False(t, errors.Is(err, rendezvous.ErrOver))
		}
		s.Close()
	})
}

// FuzzModel lets the fuzzer pick rings and what happens to them.
func FuzzModel(f *testing.F) {
	f.Add(uint64(1), []byte{1}, uint8(0), uint8(0))
	f.Add(uint64(2), []byte{2, 2}, uint8(1), uint8(0))
	f.Add(uint64(3), []byte{1, 3, 2}, uint8(2), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, shape []byte, deaths, moves uint8) {
		var perHost []int
		for _, b := range shape[:min(len(shape), 4)] {
			perHost = append(perHost, 1+int(b%4))
		}
		if len(perHost) == 0 {
			return
		}
		err := newWorld(seed, perHost, "zero", nil).run(int(deaths%4), int(moves%4))
		if deaths%4 > 0 && (errors.Is(err, errBroken) || errors.Is(err, rendezvous.ErrConflict)) {
			return
		}
		must.NoError(t, err)
	})
}
