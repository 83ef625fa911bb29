// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// Task is the task that the calling process belongs to.
type Task struct {
	log  hclog.Logger
	want uint64

	once sync.Once
	// cgroup is the task's own, 0 if membership is decided by process.
	cgroup uint64
	// tabled means that the kernel supports no exact look-up, so the whole table is
	// read.
	tabled bool

	kernel kernel
	tables shared[map[pair]Socket]
	scans  shared[scan]
}

// NewTask returns the caller's task. cgroup is the ID of the cgroup (version 2)
// that contains the task's processes and no others, 0 if there is none.
func NewTask(cgroup uint64, logger hclog.Logger) *Task {
	return &Task{log: logger, want: cgroup}
}

// RefusedError is the error for a peer that is not a process of the task.
type RefusedError struct {
	// Peer is the peer's end of the connection. Only its addresses are set if it
	// was not found.
	Peer Socket
	// Reason states why the peer is refused.
	Reason string
}

func (r *RefusedError) Error() string {
	return fmt.Sprintf("peer %s (user %d, cgroup %d): %s", r.Peer.Local, r.Peer.UID, r.Peer.Cgroup, r.Reason)
}

// ErrGone is the error for a peer that has closed its end before it was found.
var ErrGone = errors.New("the peer has closed its connection")

// begin finds out how to recognize the task's peers. It looks up a listener of the
// caller's own to learn what the kernel can tell, so that no peer can influence the
// result.
func (t *Task) begin() {
	own, err := t.kernel.ownListener()
	switch {
	case err != nil:
		t.tabled = true
		t.log.Warn("this kernel does not look up single sockets; each connection to a slot's rendezvous costs a reading of /proc/net/tcp "+
			"(load the kernel modules inet_diag and tcp_diag on the host)", "error", err)
	case t.want != 0 && own.Cgroup == t.want:
		t.cgroup = t.want
	case t.want != 0:
		t.log.Info("the task's cgroup is not that of its sockets; a peer is known by its process", "cgroup", t.want, "sockets", own.Cgroup)
	}
}

// find returns the socket with these addresses.
func (t *Task) find(local, remote netip.AddrPort) (Socket, error) {
	if !t.tabled {
		return t.kernel.socket(local, remote)
	}
	sockets, err := t.tables.do(table)
	if err != nil {
		return Socket{}, err
	}
	s, ok := sockets[pair{local, remote}]
	if !ok {
		return Socket{}, errNoSocket
	}
	return s, nil
}

// Gate admits or refuses the connections of one server. Without a cgroup, it is fastest if
// one process makes all of the connections: it looks for a peer's socket first near the
// descriptor of the last peer's.
type Gate struct {
	task *Task

	mu   sync.Mutex
	last *held
}

// held is the descriptor where a gate found the last peer.
type held struct {
	files  descriptors
	number int
}

// NewGate returns a gate for one server of the task. Close it after use.
func (t *Task) NewGate() *Gate { return &Gate{task: t} }

// Close frees the descriptors that the gate remembers.
func (g *Gate) Close() { g.remember(nil) }

// Admit returns nil if the peer of a connection is a process of the task; local is
// the caller's address, remote the peer's. The error is ErrGone, a *RefusedError,
// or an error that states why the peer could not be identified.
func (g *Gate) Admit(local, remote netip.AddrPort) error {
	t := g.task
	t.once.Do(t.begin)
	peer, err := t.find(remote, local)
	switch {
	case errors.Is(err, errNoSocket):
		return ErrGone
	case err != nil:
		return fmt.Errorf("peer %s cannot be looked up: %w", remote, err)
	case peer.State != Established:
		return ErrGone
	case t.cgroup != 0 && peer.Cgroup == t.cgroup:
		return nil
	case t.cgroup != 0:
		return &RefusedError{peer, fmt.Sprintf("it is not in the task's cgroup %d", t.cgroup)}
	case peer.Inode == 0:
		return ErrGone
	}
	// Without privileges all of the task's processes have the same user.
	if user := os.Geteuid(); user != 0 && int64(peer.UID) != int64(user) {
		return &RefusedError{peer, fmt.Sprintf("it is not the task's user %d", user)}
	}
	return g.admitHolder(peer)
}

// admitHolder admits a peer whose socket a process of the task has open.
func (g *Gate) admitHolder(peer Socket) error {
	if g.recall(peer.Inode) {
		return nil
	}
	found, err := g.task.scans.do(scanTask)
	if err != nil {
		return fmt.Errorf("the task's processes cannot be listed: %w", err)
	}
	at, ok := found.sockets[peer.Inode]
	switch {
	case ok:
		g.remember(hold(at, peer.Inode))
		return nil
	case len(found.hidden) > 0:
		return &RefusedError{peer, fmt.Sprintf("no process of the task is known to hold it; /proc/<pid>/fd of %v cannot be read: "+
			"a process of a slot must run as the task's user and be dumpable", found.hidden)}
	}
	return &RefusedError{peer, "no process of the task holds it"}
}

// These bound how far from the last descriptor the next one is looked for,
// downwards and upwards.
const (
	nearbyBelow = 8
	nearbyAbove = 32
)

// recall looks for a socket near the last one.
func (g *Gate) recall(inode uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return false
	}
	from := max(0, g.last.number-nearbyBelow)
	numbers := []int{g.last.number}
	for n := from; n <= g.last.number+nearbyAbove; n++ {
		numbers = append(numbers, n)
	}
	at := slices.IndexFunc(numbers, func(n int) bool { return g.last.files.has(n, inode) })
	if at < 0 {
		return false
	}
	g.last.number = numbers[at]
	return true
}

// remember makes h the first place to look at.
func (g *Gate) remember(h *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil {
		g.last.files.close()
	}
	g.last = h
}
