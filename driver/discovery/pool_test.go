// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/kolo-nomad/kolo/driver/discovery/election"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

func TestLinks(t *testing.T) {
	w := newWorld(t)
	a := startAgent(t, w, 0)
	agreed(t, a) // so it runs
	w.reg.Add(registry.Peer{AllocID: "alloc-9"})
	dialled := 0
	caller := w.transport(t, "alloc-9")
	l := newPool(func(_ context.Context, addr, alloc string) (*grpc.ClientConn, error) {
		dialled++
		return grpc.NewClient(addr, grpc.WithTransportCredentials(caller.Client(alloc)))
	}, hclog.NewNullLogger())
	l.timeout = patience
	probe := election.Call{
		To:      election.Peer{AllocID: "alloc-0", Addr: a.peer.Addr},
		Request: election.Request{Kind: election.Probe, State: election.State{From: election.Peer{AllocID: "alloc-9"}, Process: 1}},
	}
	call := func() election.Outcome {
		o, r := l.call(t.Context(), probe)
		if o == election.Answered {
			must.Eq(t, "alloc-0", r.State.From.AllocID)
		}
		return o
	}
	must.Eq(t, election.Answered, call())
	must.Eq(t, election.Answered, call())
	must.Eq(t, 1, dialled) // kept

	l.prune()
	must.MapLen(t, 1, l.conns)
	l.conns[endpointOf(probe.To)].used = time.Now().Add(-2 * poolIdle)
	l.prune()
	must.MapEmpty(t, l.conns)
	must.Eq(t, election.Answered, call())
	must.Eq(t, 2, dialled)

	// A connection that was made ahead serves the next call.
	l.drop(endpointOf(probe.To), l.get(endpointOf(probe.To)))
	l.connect(t.Context(), endpointOf(probe.To))
	must.Eq(t, 3, dialled)
	conn := l.get(endpointOf(probe.To))
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() { // without a call
		must.True(t, conn.WaitForStateChange(t.Context(), state))
	}
	must.Eq(t, election.Answered, call())
	must.Eq(t, 3, dialled)

	// Another allocation has taken the port: no call is made there.
	wrong := probe
	wrong.To.AllocID = "alloc-1"
	o, _ := l.call(t.Context(), wrong)
	must.Eq(t, election.Unknown, o)

	// The process dies: distinguished from one that does not answer.
	a.stop()
	must.Eq(t, election.Refused, call())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer silent.Close()
	l.timeout = 50 * time.Millisecond
	probe.To.Addr = silent.Addr().String()
	must.Eq(t, election.Unknown, call())

	l.close()
	must.MapEmpty(t, l.conns)
}
