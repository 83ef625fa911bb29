// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"net/netip"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Framework is the host's interface to the training framework. Each host has its own
// Framework and calls it from one goroutine.
type Framework interface {
	// NewEndpoint returns the endpoint of a process that is about to be started. A
	// surrogate takes the place of a lost rank 0 while others connect, and must not
	// start to train; see elastic.Start.
	NewEndpoint(surrogate bool, e Events) Endpoint
	// Join begins the exchange of a ring that has processes on this host. The previous ring
	// has ended.
	Join(*elastic.Ring) (Exchange, error)
	// Aborted reports whether the framework itself ended a process that exited. It does so
	// if other members of the ring are gone, so the exit does not count as a failure. why
	// explains such an exit to the user, and may be empty.
	Aborted(process.Exit) (aborted bool, why string)
	// Stalled reports whether a line of stderr is the framework's warning of a
	// collective that does not end.
	Stalled(line string) bool
	// Explain returns advice on the last line of stderr of a process that failed, or
	// "" if the framework does not know the line.
	Explain(line string) string
	// Reassigns reports whether a process that waits for its first ring can take another
	// place than the one for which it was started. Processes that can't change their ring
	// never can.
	Reassigns() bool
	// Standbys reports whether there may be processes that can't change their ring.
	// Then each slot has a second place, for a process of the next ring.
	Standbys() bool
}

// Endpoint is the agent's side for one process. The process asks the endpoint for its place
// in the ring, and gets its notices from the endpoint. Listen, Environment and Admit are
// called from one goroutine.
type Endpoint interface {
	// Listen starts to serve the process. It serves only callers that check admits.
	Listen(check Callers) error
	// Environment returns the variables with which the process finds the endpoint and
	// starts with its assignment. It is called after Listen. The task's variables
	// override defaults, but not fixed ones.
	Environment(elastic.Assignment) (defaults, fixed map[string]string)
	// Admit gives the process its place in the ring that was joined last. Until then its
	// requests wait.
	Admit(generation uint64, a elastic.Assignment)
	// Attested notifies the process that its ring's connections are between members
	// only; see Events.Connected.
	Attested(generation uint64, round int)
	// Notify notifies a process that can change its ring that the ring is about to change.
	// The process then leaves at its next commit. It may ignore a timestamp that is not
	// newer than the last.
	Notify(ctx context.Context, timestamp int64) error
	// Break notifies the process, if it listens for that, that its ring has lost a member.
	// The process should stop waiting and ask for its next place.
	Break(generation uint64)
	// Retire notifies a waiting process, which has left its ring, that it has no next
	// place. The process should then end by itself. An error means that the process
	// can't be notified and must be killed.
	Retire(ctx context.Context) error
	// Connections returns the listening addresses that identify the connections of the
	// process's ring, and the ring's generation. These connections are shut down when the
	// ring breaks. A framework for which Break is enough returns none.
	Connections() (addrs map[netip.AddrPort]bool, generation uint64)
	// Listening returns the addresses at which the process itself listens for others of its
	// ring, as far as the exchange shows them, and the ring's generation. A framework whose
	// processes report them through Events.Connected returns none.
	Listening() (addrs []netip.AddrPort, generation uint64)
	// Close stops serving the process. It may be called without Listen.
	Close() error
}

// BatchKeeper is an Endpoint that can tell its process whether the job must not adapt its
// batch. KeepBatch may be called before Listen.
type BatchKeeper interface{ KeepBatch(keep bool) }

// Events holds the functions that an endpoint calls to report what its process does. They
// may be called from any goroutine.
type Events struct {
	// Arrived reports the first request of the process. restarts states that the
	// process can't change its ring; see elastic.SlotArrived.
	Arrived func(restarts bool)
	// Waiting reports that the process left the ring, at a commit or because the ring
	// broke, and asks for its place in the next.
	Waiting func(generation uint64)
	// Notifiable reports that the process can now be notified.
	Notifiable func()
	// Progress reports the progress of the ring of a generation. Processes without this
	// write to the progress file instead.
	Progress func(generation uint64, p wire.Progress)
	// Forming reports that the process is still connecting to the ring of a generation,
	// and the addresses at which it listens so far. It is repeated until the process is
	// connected.
	Forming func(generation uint64, round int, listening []netip.AddrPort)
	// Connected reports that the process is connected to the ring of a generation, and
	// the addresses at which it listens for the others; known is false if it does not
	// report them. It comes before Exchange.Up, and again with the next round when the
	// ring's processes form another group; see wire.Connected. If an endpoint never
	// calls it, the addresses are those of Endpoint.Listening.
	Connected func(generation uint64, round int, listening []netip.AddrPort, known bool)
	// Warn reports a fact about the process to the user. Only the first text of each
	// process is reported.
	Warn func(text string)
}

// Callers checks the processes that call an endpoint.
type Callers interface {
	// Admit returns nil if the peer of a connection may be served. local is the endpoint's
	// address, remote the peer's.
	Admit(local, remote netip.AddrPort) error
}

// Exchange holds this host's view of the values that the processes of one ring exchange to
// connect. It does no I/O: the host carries values to the leader and back.
type Exchange interface {
	// Outgoing returns the values that were not sent to the leader yet.
	Outgoing() []wire.Put
	// Fill adds values from the leader.
	Fill(wire.Fill) error
	// Snapshot returns everything that another leader needs from this host.
	Snapshot() wire.Snapshot
	// News returns a channel that has an element when Outgoing or Up may have changed.
	// Close closes it.
	News() <-chan struct{}
	// Up reports whether the process of a rank is connected to all others. The ring trains
	// when all are. Its first step after that shows that the state is synced.
	Up(rank int) bool
	// Withdraw drops the values of a process that died, and returns those that the leader
	// must drop, too. If one of them may have been read, it drops none and returns visible.
	Withdraw(rank int) (puts []wire.Put, visible bool)
	// Close ends the exchange and everything that waits for it.
	Close()
}
