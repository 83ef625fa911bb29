// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"io"
	"net/netip"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// framework is a framework whose processes exchange nothing.
type framework struct{}

func (framework) NewEndpoint(bool, Events) Endpoint { return endpoint{} }

func (framework) Join(*elastic.Ring) (Exchange, error) { return exchange{make(chan struct{}, 1)}, nil }

func (framework) Aborted(process.Exit) (bool, string) { return false, "" }

func (framework) Stalled(string) bool { return false }

func (framework) Explain(string) string { return "" }

func (framework) Reassigns() bool { return false }
func (framework) Standbys() bool  { return false }

type endpoint struct{ retire *func(context.Context) error }

func (endpoint) Environment(elastic.Assignment) (defaults, fixed map[string]string) {
	return map[string]string{"FRAMEWORK_LOG": "warn", "FRAMEWORK_TIMEOUT": "30"}, map[string]string{"FRAMEWORK_PORT": "4711"}
}

func (endpoint) Listen(Callers) error { return nil }

func (endpoint) Admit(uint64, elastic.Assignment) {}

func (endpoint) Attested(uint64, int) {}

func (endpoint) Notify(context.Context, int64) error { return nil }

func (endpoint) Break(uint64) {}

func (e endpoint) Retire(ctx context.Context) error { return (*e.retire)(ctx) }

func (endpoint) Connections() (map[netip.AddrPort]bool, uint64) { return nil, 0 }

func (endpoint) Listening() ([]netip.AddrPort, uint64) { return nil, 0 }

func (endpoint) Close() error { return nil }

type exchange struct{ news chan struct{} }

func (exchange) Outgoing() []wire.Put { return nil }

func (exchange) Fill(wire.Fill) error { return nil }

func (exchange) Snapshot() wire.Snapshot { return wire.Snapshot{} }

func (e exchange) News() <-chan struct{} { return e.news }

func (exchange) Up(int) bool { return false }

func (exchange) Withdraw(int) ([]wire.Put, bool) { return nil, false }

func (e exchange) Close() { close(e.news) }

// leaderEnd is a session that records the host's messages.
type leaderEnd struct{ sent []*wire.ToLeader }

func (e *leaderEnd) Send(m *wire.ToLeader) error { e.sent = append(e.sent, m); return nil }

func (*leaderEnd) Recv() (*wire.ToAgent, error) { return nil, io.EOF }

func (*leaderEnd) Close() {}
