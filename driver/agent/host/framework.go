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

// Framework is all that a host leaves to the training framework of its processes.
// A host has one of its own and calls it from one goroutine.
type Framework interface {
	// NewEndpoint returns the endpoint of a process that is about to be started. A
	// surrogate takes the place of a lost rank 0 while others connect, and must not
	// get as far as to train; see elastic.Start.
	NewEndpoint(surrogate bool, e Events) Endpoint
	// Join begins the exchange of a ring that has processes on this host. The
	// ring before it is over.
	Join(*elastic.Ring) (Exchange, error)
	// Aborted reports whether the framework itself has ended a process that exited,
	// which it does when others of the ring are gone: that is no failure of the
	// process. why explains such an exit to people, and may be empty.
	Aborted(process.Exit) (aborted bool, why string)
	// Stalled reports whether the framework complains, in a line of stderr, of a
	// collective that does not come to an end.
	Stalled(line string) bool
	// Explain states what to do about the last line of stderr of a process that
	// failed; empty where the framework does not know it.
	Explain(line string) string
	// Standbys reports whether there may be processes that can't change their ring, so
	// that each slot has a second place, for one of the next ring.
	Standbys() bool
}

// Endpoint is where one process asks for its place in the ring, and by which it is
// notified. Listen, Environment and Admit are called from one goroutine.
type Endpoint interface {
	// Listen begins to answer the process, and callers that check admits only.
	Listen(check Callers) error
	// Environment is what the process needs to find the endpoint, which listens, and
	// to start with its assignment. The task's variables override defaults, not
	// fixed ones.
	Environment(elastic.Assignment) (defaults, fixed map[string]string)
	// Admit gives the process its place in the ring that was joined last. What it
	// asks before that is held.
	Admit(generation uint64, a elastic.Assignment)
	// Attested tells the process that its ring's connections are between members
	// alone; see Events.Connected.
	Attested(generation uint64, round int)
	// Notify notifies the process, if it can change its ring, that the ring is to
	// change, so that it leaves at its next commit. It may ignore a timestamp that is not newer than the last.
	Notify(ctx context.Context, timestamp int64) error
	// Break reports to the process, where it listens for that, that its ring has lost
	// a member: it is to give up what it waits for, and to ask for its next place.
	Break(generation uint64)
	// Retire tells the process, which has left its ring and is held, that it has no next
	// place: it is to end by itself. The error is that it can't be told, and has to be
	// killed.
	Retire(ctx context.Context) error
	// Connections returns the listening addresses by which the connections of the
	// process's ring are known, and the ring's generation. They are shut down when
	// the ring breaks; none are where Break is enough.
	Connections() (addrs map[netip.AddrPort]bool, generation uint64)
	// Listening returns the addresses at which the process itself listens for others
	// of its ring, as far as the exchange shows them, and the ring's generation. Where
	// processes report them by Events.Connected, there are none.
	Listening() (addrs []netip.AddrPort, generation uint64)
	// Close ends all answers. It may be called without Listen.
	Close() error
}

// Events are what an endpoint reports of its process, from any goroutine.
type Events struct {
	// Arrived: the process has asked something for the first time. restarts: it can't
	// change its ring; see elastic.SlotArrived.
	Arrived func(restarts bool)
	// Waiting: it has left the ring at a commit, or because the ring broke, and
	// asks for its place in the next.
	Waiting func(generation uint64)
	// Notifiable: it can be notified from now on.
	Notifiable func()
	// Progress: it reports how far the ring of a generation has come, as others do
	// in the progress file.
	Progress func(generation uint64, p wire.Progress)
	// Forming: the process still connects to the ring of a generation, and listens at
	// these addresses so far. It is repeated as long as that lasts.
	Forming func(generation uint64, round int, listening []netip.AddrPort)
	// Connected: the process is connected to the ring of a generation, and listens at
	// these addresses for the others; known is false where it doesn't report them. It
	// comes before Exchange.Up, and again with the next round where the ring's
	// processes form another group; see wire.Connected. Where there is none, the
	// addresses are Endpoint.Listening.
	Connected func(generation uint64, round int, listening []netip.AddrPort, known bool)
	// Warn: people have to know something of the process. Of one process only the
	// first text is reported.
	Warn func(text string)
}

// Callers checks the processes that call an endpoint.
type Callers interface {
	// Admit returns nil for a connection whose peer may be answered; local is the
	// endpoint's address, remote the peer's.
	Admit(local, remote netip.AddrPort) error
}

// Exchange has what the processes of one ring exchange to connect, as this host
// sees it. It does no I/O: the host carries values to the leader and back.
type Exchange interface {
	// Outgoing returns the values that the leader has not been given yet.
	Outgoing() []wire.Put
	// Fill takes what the leader gives out.
	Fill(wire.Fill) error
	// Snapshot is all that another leader needs of this host.
	Snapshot() wire.Snapshot
	// News has an element when Outgoing or Up may have changed. Close closes it.
	News() <-chan struct{}
	// Up reports whether the process of a rank is connected to all others. The ring
	// trains when all are; its state is synced with the first step after that.
	Up(rank int) bool
	// Withdraw drops the values of a process that died, unless one of them may
	// have been read: then visible is true. The leader has to drop puts, too.
	Withdraw(rank int) (puts []wire.Put, visible bool)
	// Close ends the exchange and all that waits for it.
	Close()
}
