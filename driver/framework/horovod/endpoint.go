// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"context"
	"strconv"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// endpoint is the address where one process finds its rendezvous and asks for its
// rank.
type endpoint struct {
	*handler
	f      *Framework
	server *rendezvous.Endpoint // nil before Listen
}

// NewEndpoint returns the endpoint of a process that is about to start.
func (f *Framework) NewEndpoint(surrogate bool, e host.Events) host.Endpoint {
	return &endpoint{f: f, handler: &handler{surrogate: surrogate, events: e}}
}

// Listen starts to serve the process on a loopback port of its own.
func (e *endpoint) Listen(check host.Callers) (err error) {
	e.server, err = rendezvous.Listen(e.handler, check, e.f.o.Logger.Named("rendezvous"))
	return err
}

// Environment returns the variables that horovodrun sets
// (horovod/runner/gloo_run.py, create_slot_env_vars and create_run_env_vars).
func (e *endpoint) Environment(a elastic.Assignment) (defaults, fixed map[string]string) {
	o := e.f.o
	defaults = map[string]string{}
	if o.Interface != "" {
		defaults["HOROVOD_GLOO_IFACE"] = o.Interface
		defaults["NCCL_SOCKET_IFNAME"] = o.Interface
	}
	return defaults, map[string]string{
		"HOROVOD_RANK":                 strconv.Itoa(a.Rank),
		"HOROVOD_SIZE":                 strconv.Itoa(a.Size),
		"HOROVOD_LOCAL_RANK":           strconv.Itoa(a.LocalRank),
		"HOROVOD_LOCAL_SIZE":           strconv.Itoa(a.LocalSize),
		"HOROVOD_CROSS_RANK":           strconv.Itoa(a.CrossRank),
		"HOROVOD_CROSS_SIZE":           strconv.Itoa(a.CrossSize),
		"HOROVOD_HOSTNAME":             string(o.Host),
		"HOROVOD_ELASTIC":              "1",
		"HOROVOD_CONTROLLER":           "gloo",
		"HOROVOD_CPU_OPERATIONS":       "gloo",
		"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
		"HOROVOD_GLOO_RENDEZVOUS_PORT": strconv.Itoa(e.server.Port()),
	}
}

// Admit gives the process its place in the current ring.
func (e *endpoint) Admit(generation uint64, a elastic.Assignment) {
	e.admit(&placement{generation: generation, assignment: a, store: e.f.store})
}

// Notify sends a notice to the process's notification service.
func (e *endpoint) Notify(ctx context.Context, timestamp int64) error {
	return e.notifyTarget().Notify(ctx, timestamp)
}

// Break does nothing. A Horovod process cannot be reached while it connects; it
// notices a broken ring when the host cuts its connections.
func (e *endpoint) Break(uint64) {}

// Retire makes the process exit by itself.
func (e *endpoint) Retire(ctx context.Context) error { return e.retire(ctx, string(e.f.o.Host)) }

// Attested does nothing: Horovod processes do not wait for it.
func (e *endpoint) Attested(uint64, int) {}

// Close ends all requests and connections of the process.
func (e *endpoint) Close() error {
	if e.server == nil {
		return nil
	}
	return e.server.Close()
}
