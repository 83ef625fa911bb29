// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Bounds of the log. Operations that do not fit wait until the slowest host has applied
// more of it. A host that has more operations waiting than its bound is refused.
const (
	maxLog   = 64 << 20 // of entries that some host has not applied, in bytes
	maxHeld  = 2 * maxOnTheWay
	maxBatch = 4 << 20 // of the entries of one Fill, unless it has only one
)

// Sequencer is the leader's side of one ring's exchange: it puts the operations in order.
// It keeps no values, only the entries that some host has yet to apply. It does no I/O. All
// methods may be called concurrently, but Fills for one host should reach it in the order
// in which they were returned.
type Sequencer struct {
	mu    sync.Mutex
	hosts map[string]*member
	size  int // hosts of the ring, 0 while not known
	// expected are the hosts that a new leader has yet to hear from.
	expected map[string]bool
	// log holds the entries after the first base; bytes is its size.
	base  uint64
	log   []entry
	bytes int
	// held are operations that have no place in the log yet, in order of arrival.
	held []entry
}

// member is a host of the ring as the leader knows it.
type member struct {
	known   bool   // it has reported have
	have    uint64 // entries that it has applied
	given   uint64 // entries that it was given
	ordered uint64 // the last of its operations that are in the log
	held    int    // its operations that have no place in the log yet, in bytes
}

// NewSequencer starts the log of a ring.
func NewSequencer() *Sequencer {
	return &Sequencer{hosts: map[string]*member{}, expected: map[string]bool{}}
}

// Expect names the hosts that take part in a ring. A leader that takes over an existing
// ring calls it: until the leader has heard from all hosts, it does not know what the
// previous leader handed out.
func (s *Sequencer) Expect(hosts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hosts {
		s.expected[h] = true
	}
}

// Submit processes messages that a host sends during a session, and returns the messages to
// send. If the host was already registered when it joined the ring, its first message must
// state how many entries it has applied.
func (s *Sequencer) Submit(host string, puts []wire.Put) ([]wire.Fill, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(host, puts)
}

// Restore takes a host's snapshot, and returns the messages to send out.
func (s *Sequencer) Restore(host string, snap wire.Snapshot) ([]wire.Fill, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The snapshot repeats them, and entries that the host was sent may be lost.
	s.held = slices.DeleteFunc(s.held, func(e entry) bool { return e.host == host })
	m := s.member(host)
	m.known, m.held = false, 0
	return s.take(host, snap.Puts)
}

func (s *Sequencer) take(host string, puts []wire.Put) ([]wire.Fill, error) {
	var errs []error
	// After this there is no other log than this leader's.
	takesOver := len(s.expected) > 0
	for _, p := range puts {
		if p.Scope == scopeLog && !takesOver {
			continue
		}
		if err := s.put(host, p); err != nil {
			errs = append(errs, fmt.Errorf("from host %s: %w", host, err))
		}
	}
	errs = append(errs, s.order())
	s.trim()
	return s.give(), errors.Join(errs...)
}

func (s *Sequencer) put(host string, p wire.Put) error {
	if s.size == 0 {
		s.size = p.Size
	}
	if p.Size != s.size || p.Size <= 0 {
		return fmt.Errorf("%w: a ring of %d hosts for some and %d for others", errMalformed, s.size, p.Size)
	}
	switch p.Scope {
	case scopeHave:
		return s.report(host, p)
	case scopeLog:
		b, err := decodeBatch(p.Value)
		if err != nil {
			return err
		}
		return s.extend(b)
	case scopeOp:
		seq, err := number(p)
		if err != nil {
			return err
		}
		e := entry{host: host, seq: seq, op: p.Value}
		m := s.member(host)
		if m.held+e.size() > maxHeld {
			return fmt.Errorf("%w: operations without a place in the log of %d bytes, the most is %d", ErrTooMuch, m.held+e.size(), maxHeld)
		}
		m.held += e.size()
		s.held = append(s.held, e)
		return nil
	default:
		return fmt.Errorf("%w: put of scope %.40q", errMalformed, p.Scope)
	}
}

// report takes the number of entries that a host has applied.
func (s *Sequencer) report(host string, p wire.Put) error {
	have, own, err := decodeHave(p)
	if err != nil {
		return err
	}
	if have < s.base {
		return fmt.Errorf("store: it has applied %d entries, and of the first %d none is kept", have, s.base)
	}
	m := s.member(host)
	if !m.known {
		m.known, m.given = true, have
	}
	m.have = have
	m.ordered = max(m.ordered, own)
	delete(s.expected, host)
	return nil
}

func (s *Sequencer) member(host string) *member {
	m := s.hosts[host]
	if m == nil {
		m = &member{}
		s.hosts[host] = m
	}
	return m
}

// last returns the index of the last entry.
func (s *Sequencer) last() uint64 { return s.base + uint64(len(s.log)) }

// extend takes the end of a log that the previous leader handed out, if it is longer. No
// host has dropped entries that another one lacks, so the logs overlap.
func (s *Sequencer) extend(b batch) error {
	if s.last() == 0 {
		for h, m := range s.hosts {
			if m.known && m.have < b.first-1 {
				return fmt.Errorf("store: a log after the first %d entries, of which host %s has applied %d", b.first-1, h, m.have)
			}
		}
		s.base = b.first - 1
	}
	if b.first > s.last()+1 {
		return fmt.Errorf("store: entries from %d on, but %d are missing", b.first, b.first-1-s.last())
	}
	for i, e := range b.entries {
		if b.first+uint64(i) > s.last() {
			s.append(e)
		}
	}
	return nil
}

func (s *Sequencer) append(e entry) {
	s.log = append(s.log, e)
	s.bytes += e.size()
	m := s.member(e.host)
	m.ordered = max(m.ordered, e.seq)
}

// order gives held operations their places in the log.
func (s *Sequencer) order() error {
	if len(s.expected) > 0 {
		return nil
	}
	var errs []error
	n := 0
	for ; n < len(s.held) && s.bytes < maxLog; n++ {
		e := s.held[n]
		s.member(e.host).held -= e.size()
		switch next := s.member(e.host).ordered + 1; {
		case e.seq > next:
			errs = append(errs, fmt.Errorf("store: operation %d of host %s, whose next is %d", e.seq, e.host, next))
		case e.seq == next:
			s.append(e)
		}
	}
	s.held = slices.Delete(s.held, 0, n)
	return errors.Join(errs...)
}

// trim drops the entries that all hosts have applied.
func (s *Sequencer) trim() {
	n := s.stable() - s.base
	for i := range s.log[:n] {
		s.bytes -= s.log[i].size()
	}
	clear(s.log[:n])
	s.log = s.log[n:]
	s.base += n
}

// stable returns how many entries all hosts of the ring have applied.
func (s *Sequencer) stable() uint64 {
	stable, known := s.last(), 0
	for _, m := range s.hosts {
		if m.known {
			known++
			stable = min(stable, m.have)
		}
	}
	if known < s.size || len(s.expected) > 0 {
		return s.base
	}
	return stable
}

// give returns the next entries for each host that has applied the ones it was sent before.
// Hosts that have applied the same number share one Fill.
func (s *Sequencer) give() []wire.Fill {
	if len(s.expected) > 0 {
		return nil
	}
	behind := map[uint64][]string{}
	for _, h := range slices.Sorted(maps.Keys(s.hosts)) {
		if m := s.hosts[h]; m.known && m.given == m.have && m.have < s.last() {
			behind[m.have] = append(behind[m.have], h)
		}
	}
	var fills []wire.Fill
	for _, have := range slices.Sorted(maps.Keys(behind)) {
		b := s.next(have)
		for _, h := range behind[have] {
			s.hosts[h].given = b.last()
		}
		fills = append(fills, logFill(b, behind[have]))
	}
	return fills
}

// next returns the entries after the first have, as many as fit into one Fill.
func (s *Sequencer) next(have uint64) batch {
	b := batch{first: have + 1, stable: s.base}
	rest, bytes := s.log[have-s.base:], 0
	for n := range rest {
		if bytes += rest[n].size(); n > 0 && bytes > maxBatch {
			rest = rest[:n]
			break
		}
	}
	b.entries = rest
	return b
}

// Withdraw reports whether other processes may have read values of a process that died. It
// removes nothing, because entries of a log cannot be withdrawn.
func (s *Sequencer) Withdraw(puts []wire.Put) (visible bool) { return len(puts) > 0 }

// Connected does nothing, because processes also use the store while they train.
func (s *Sequencer) Connected() {}
