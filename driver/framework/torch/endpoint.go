// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"context"
	"net/netip"
	"strconv"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
	"github.com/kolo-nomad/kolo/driver/framework/torch/worker"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// endpoint is where one process asks for its place and finds its ring's store.
type endpoint struct {
	*handler
	f *Framework
}

// NewEndpoint returns the endpoint of a process that is about to start. There are no
// surrogates.
func (f *Framework) NewEndpoint(_ bool, e host.Events) host.Endpoint {
	return &endpoint{f: f, handler: newHandler(&f.mode, e, f.o.Logger)}
}

// Listen starts to serve the process on loopback ports of its own: one for the store and,
// if processes may use the worker protocol, one for that protocol.
func (e *endpoint) Listen(check host.Callers) (err error) {
	if e.f.o.Mode != settings.ModeRestart {
		if e.worker, err = worker.Listen(e.handler, check, e.f.o.Logger.Named("worker")); err != nil {
			return err
		}
	}
	if e.store, err = tcpstore.Listen(e.handler, check, e.f.o.Logger.Named("store")); err != nil {
		return err
	}
	e.begin(e.f.o.Mode)
	return nil
}

// Environment returns the variables that kolo.torch reads, and those that torchrun sets
// (torch/distributed/elastic/agent/server/local_elastic_agent.py).
func (e *endpoint) Environment(a elastic.Assignment) (defaults, fixed map[string]string) {
	o := e.f.o
	// PyTorch's client of the store may be built without libuv. It then fails unless this
	// variable is set. The protocol is the same.
	//
	// Gloo asks for the addresses of the other ranks one by one, with three requests for each.
	// With GLOO_ENABLE_STORE_V2_API newer releases ask for 128 at once. Each process may choose
	// for itself.
	defaults = map[string]string{"USE_LIBUV": "0", "GLOO_ENABLE_STORE_V2_API": "1"}
	if o.Interface != "" {
		defaults["GLOO_SOCKET_IFNAME"] = o.Interface
		defaults["NCCL_SOCKET_IFNAME"] = o.Interface
	}
	rank, size := strconv.Itoa(a.Rank), strconv.Itoa(a.Size)
	fixed = map[string]string{
		"MASTER_ADDR":                  "127.0.0.1",
		"MASTER_PORT":                  strconv.Itoa(e.store.Port()),
		"TORCHELASTIC_USE_AGENT_STORE": "True",
		"TORCHELASTIC_RUN_ID":          o.Job,
		"TORCHELASTIC_RESTART_COUNT":   "0",
		"TORCHELASTIC_MAX_RESTARTS":    "0",
		"RANK":                         rank,
		"WORLD_SIZE":                   size,
		"LOCAL_RANK":                   strconv.Itoa(a.LocalRank),
		"LOCAL_WORLD_SIZE":             strconv.Itoa(a.LocalSize),
		"GROUP_RANK":                   strconv.Itoa(a.CrossRank),
		"GROUP_WORLD_SIZE":             strconv.Itoa(a.CrossSize),
		"ROLE_NAME":                    "default",
		"ROLE_RANK":                    rank,
		"ROLE_WORLD_SIZE":              size,
	}
	if o.Replica > 1 {
		fixed["KOLO_REPLICA_SIZE"] = strconv.Itoa(o.Replica)
	}
	if e.worker != nil {
		fixed["KOLO_WORKER_ADDR"] = "127.0.0.1:" + strconv.Itoa(e.worker.Port())
		fixed["KOLO_WORKER_SECRET"] = e.worker.Secret()
	}
	return defaults, fixed
}

// Admit gives the process its place in the current ring.
func (e *endpoint) Admit(generation uint64, a elastic.Assignment) {
	e.admit(&placement{
		Place: worker.Place{Generation: generation, Rank: a.Rank, Size: a.Size, LocalRank: a.LocalRank, LocalSize: a.LocalSize,
			CrossRank: a.CrossRank, CrossSize: a.CrossSize, Replica: e.f.ring.Replica, Newcomers: newcomers(e.f.ring),
			Attests: e.f.ring.Attests && a.Size > 1},
		replica: e.f.replica,
	})
}

// Attested tells the process that its group contains only members of the ring.
func (e *endpoint) Attested(generation uint64, round int) {
	if e.worker != nil {
		e.worker.Attested(generation, round)
	}
}

// Notify notifies the process of a change. It ignores the timestamp: the generation
// identifies the notice.
func (e *endpoint) Notify(context.Context, int64) error {
	if p := e.place(); p != nil && e.worker != nil {
		e.worker.Change(p.Generation)
	}
	return nil
}

// Break tells the process that its ring has lost a member.
func (e *endpoint) Break(generation uint64) {
	if e.worker != nil {
		e.worker.Broken(generation)
	}
}

// Connections returns none, because the process ends its collectives by itself.
func (e *endpoint) Connections() (map[netip.AddrPort]bool, uint64) { return nil, 0 }

// Listening returns nothing, because the process reports its addresses itself.
func (e *endpoint) Listening() ([]netip.AddrPort, uint64) { return nil, 0 }

// Close ends all connections of the process.
func (e *endpoint) Close() error {
	e.end()
	if e.worker != nil {
		_ = e.worker.Close()
	}
	if e.store == nil {
		return nil
	}
	return e.store.Close()
}

var _ tcpstore.Process = (*handler)(nil)

var _ worker.Handler = (*handler)(nil)
