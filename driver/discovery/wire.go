// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	pb "github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/election"
)

// The messages mirror the types of package election, field by field.

func toPeer(p election.Peer) *pb.Peer {
	return &pb.Peer{AllocId: p.AllocID, Group: p.Group, Index: int32(p.Index), Addr: p.Addr, Registered: p.Registered} //nolint:gosec // an allocation's index
}

func fromPeer(p *pb.Peer) election.Peer {
	return election.Peer{AllocID: p.GetAllocId(), Group: p.GetGroup(), Index: int(p.GetIndex()), Addr: p.GetAddr(), Registered: p.GetRegistered()}
}

func toProcess(p election.Process) *pb.Process { return &pb.Process{AllocId: p.AllocID, Id: p.ID} }

func fromProcess(p *pb.Process) election.Process {
	return election.Process{AllocID: p.GetAllocId(), ID: p.GetId()}
}

func toRing(r election.Ring) *pb.Ring {
	if r.IsZero() {
		return nil
	}
	out := &pb.Ring{Registry: r.Registry, Term: r.Term, Leader: toProcess(r.Leader), Generation: r.Generation}
	for _, h := range r.Hosts {
		out.Hosts = append(out.Hosts, &pb.Host{AllocId: h.AllocID, Process: h.Process, Registered: h.Registered})
	}
	return out
}

func fromRing(r *pb.Ring) election.Ring {
	if len(r.GetHosts()) == 0 {
		return election.Ring{}
	}
	out := election.Ring{Registry: r.GetRegistry(), Term: r.GetTerm(), Leader: fromProcess(r.GetLeader()), Generation: r.GetGeneration()}
	for _, h := range r.GetHosts() {
		out.Hosts = append(out.Hosts, election.Host{AllocID: h.GetAllocId(), Process: h.GetProcess(), Registered: h.GetRegistered()})
	}
	return out
}

func toState(s election.State) *pb.State {
	out := &pb.State{
		From: toPeer(s.From), Process: s.Process,
		Promised: s.Promised, PromisedTo: toProcess(s.PromisedTo),
		Leader: toPeer(s.Leader), LeaderTerm: s.LeaderTerm, Lost: s.Lost,
		Eligible: s.Eligible, Rings: &pb.Rings{Chosen: toRing(s.Rings.Chosen)},
	}
	for _, r := range s.Rings.Pending {
		out.Rings.Pending = append(out.Rings.Pending, toRing(r))
	}
	return out
}

func fromState(s *pb.State) election.State {
	out := election.State{
		From: fromPeer(s.GetFrom()), Process: s.GetProcess(),
		Promised: s.GetPromised(), PromisedTo: fromProcess(s.GetPromisedTo()),
		Leader: fromPeer(s.GetLeader()), LeaderTerm: s.GetLeaderTerm(), Lost: s.GetLost(),
		Eligible: s.GetEligible(), Rings: election.Rings{Chosen: fromRing(s.GetRings().GetChosen())},
	}
	for _, r := range s.GetRings().GetPending() {
		if ring := fromRing(r); !ring.IsZero() {
			out.Rings.Pending = append(out.Rings.Pending, ring)
		}
	}
	return out
}

func toRequest(r election.Request) *pb.Request {
	return &pb.Request{State: toState(r.State), Term: r.Term, Ring: toRing(r.Ring)}
}

func fromRequest(kind election.Kind, r *pb.Request) election.Request {
	return election.Request{Kind: kind, State: fromState(r.GetState()), Term: r.GetTerm(), Ring: fromRing(r.GetRing())}
}

func toReply(r election.Reply) *pb.Reply { return &pb.Reply{Ok: r.OK, State: toState(r.State)} }

func fromReply(r *pb.Reply) election.Reply {
	return election.Reply{OK: r.GetOk(), State: fromState(r.GetState())}
}
