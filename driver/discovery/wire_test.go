// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"testing"

	"github.com/shoenig/test/must"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/election"
)

// TestProperty_wire: messages survive encoding and decoding unchanged.
func TestProperty_wire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.Custom(func(t *rapid.T) election.Host {
			return election.Host{AllocID: rapid.String().Draw(t, "alloc"), Process: rapid.Uint64().Draw(t, "process"), Registered: rapid.Uint64().Draw(t, "registered")}
		})
		process := rapid.Custom(func(t *rapid.T) election.Process {
			return election.Process{AllocID: rapid.String().Draw(t, "alloc"), ID: rapid.Uint64().Draw(t, "id")}
		})
		ring := rapid.Custom(func(t *rapid.T) election.Ring {
			return election.Ring{
				Registry: rapid.Uint64().Draw(t, "registry"), Term: rapid.Uint64().Draw(t, "term"), Leader: process.Draw(t, "leader"), Generation: rapid.Uint64().Draw(t, "generation"),
				Hosts: rapid.SliceOfN(host, 1, 3).Draw(t, "hosts"),
			}
		})
		peer := rapid.Custom(func(t *rapid.T) election.Peer {
			return election.Peer{
				AllocID: rapid.String().Draw(t, "alloc"), Group: rapid.String().Draw(t, "group"), Index: int(rapid.Int32().Draw(t, "index")),
				Addr: rapid.String().Draw(t, "addr"), Registered: rapid.Uint64().Draw(t, "registered"),
			}
		})
		in := election.Request{
			Kind: election.Accept, Term: rapid.Uint64().Draw(t, "term"), Ring: ring.Draw(t, "ring"),
			State: election.State{
				From: peer.Draw(t, "from"), Process: rapid.Uint64().Draw(t, "process"),
				Promised: rapid.Uint64().Draw(t, "promised"), PromisedTo: process.Draw(t, "promised to"),
				Leader: peer.Draw(t, "leader"), LeaderTerm: rapid.Uint64().Draw(t, "leader term"),
				Lost: rapid.Uint64().Draw(t, "lost"), Eligible: rapid.Bool().Draw(t, "standing"),
				Rings: election.Rings{Chosen: ring.Draw(t, "chosen"), Pending: rapid.SliceOfN(ring, 1, 3).Draw(t, "pending")},
			},
		}
		b, err := proto.Marshal(toRequest(in))
		must.NoError(t, err)
		var back pb.Request
		must.NoError(t, proto.Unmarshal(b, &back))
		must.Eq(t, in, fromRequest(election.Accept, &back))

		reply := election.Reply{OK: rapid.Bool().Draw(t, "ok"), State: in.State}
		b, err = proto.Marshal(toReply(reply))
		must.NoError(t, err)
		var backReply pb.Reply
		must.NoError(t, proto.Unmarshal(b, &backReply))
		must.Eq(t, reply, fromReply(&backReply))
	})
	must.Eq(t, election.Request{Kind: election.Probe}, fromRequest(election.Probe, &pb.Request{}))
}
