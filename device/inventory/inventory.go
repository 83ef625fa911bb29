// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// card is one GPU that was seen at least once.
type card struct {
	facts nvml.Facts
	// gpu is nil while the GPU cannot be reached.
	gpu nvml.GPU
	// missing is why; nil while it can.
	missing error
	// busy tells that a sample is being read, begun since when.
	busy  bool
	begun time.Time
	// index is NVML's number of it.
	index int
}

// unit is what can be given to a task: a whole GPU, or a MIG instance of it.
type unit struct {
	card     *card
	instance *nvml.Instance
}

func (u unit) id() string {
	if u.instance != nil {
		return u.instance.UUID
	}
	return u.card.facts.UUID
}

// product is the name without the place, as nomad-device-nvidia has it.
func (u unit) product() string {
	if u.instance != nil {
		return u.instance.Name
	}
	return u.card.facts.Name
}

func (u unit) memoryMiB() *uint64 {
	if u.instance != nil {
		return u.instance.MemoryMiB
	}
	return u.card.facts.MemoryMiB
}

// nvlinks counts the links that are up, what they carry together, and whether
// they end at NVSwitch. MIG instances cannot use them.
func (u unit) nvlinks() (links, mbps int, switched bool) {
	if u.instance != nil {
		return 0, 0, false
	}
	for _, p := range u.card.facts.Ports {
		mbps += p.MBps
		switched = switched || p.Switch
	}
	return len(u.card.facts.Ports), mbps, switched
}

// machine is what was read of the GPUs: those there and those that were.
type machine struct {
	driver nvml.Driver
	// cards are ordered by PCI address.
	cards []*card
	pairs map[[2]string]topology.Pair
	// listed is how many GPUs NVML has, ignored ones too.
	listed int
	// unread are errors of GPUs of which not even the UUID could be read, by
	// NVML's number.
	unread map[int]error
	// unmet are the ids to ignore that no GPU has that could be read.
	unmet []string
	// all are the units, once they were listed.
	all []unit
}

// errUnlisted is why a GPU is missing that NVML says nothing about.
var errUnlisted = errors.New("NVML does not list the GPU any more")

// readMachine reads all GPUs. A GPU that fails does not keep the others from
// being read: it stays as it was known before, with the error. The error
// returned is of NVML as a whole.
func readMachine(lib nvml.Library, before machine, ignored []string) (machine, error) {
	now := machine{pairs: map[[2]string]topology.Pair{}, unread: map[int]error{}}
	var err error
	if now.driver, err = lib.Driver(); err != nil {
		return before, err
	}
	n, err := lib.Count()
	if err != nil {
		return before, err
	}
	now.listed = n
	now.unmet = slices.Clone(ignored)
	for i := range n {
		c, err := readCard(lib, i)
		switch {
		case err != nil && nvml.Gone(err):
			return before, err
		case err != nil:
			now.unread[i] = fmt.Errorf("GPU %d: %w", i, err)
		case now.meets(c.facts.UUID):
		default:
			c.facts.Instances = slices.DeleteFunc(c.facts.Instances, func(in nvml.Instance) bool {
				return now.meets(in.UUID)
			})
			now.cards = append(now.cards, c)
		}
	}
	now.keep(before)
	slices.SortFunc(now.cards, func(a, b *card) int {
		return cmp.Or(cmp.Compare(a.facts.Bus, b.facts.Bus), cmp.Compare(a.facts.UUID, b.facts.UUID))
	})
	return now, now.readPairs(lib, before)
}

// meets tells whether an id is one to ignore.
func (m *machine) meets(id string) bool {
	before := len(m.unmet)
	m.unmet = slices.DeleteFunc(m.unmet, func(unmet string) bool { return unmet == id })
	return len(m.unmet) < before
}

func readCard(lib nvml.Library, index int) (*card, error) {
	gpu, err := lib.GPU(index)
	if err != nil {
		return nil, err
	}
	f, err := gpu.Facts()
	if err != nil {
		return nil, err
	}
	return &card{facts: f, gpu: gpu, index: index}, nil
}

// keep adds the GPUs that were seen before and not now. A lost GPU answers with
// an error where its name would be: whose error it is, its number tells.
func (m *machine) keep(before machine) {
	for _, old := range before.cards {
		there := slices.ContainsFunc(m.cards, func(c *card) bool { return c.facts.UUID == old.facts.UUID })
		if there {
			continue
		}
		lost := &card{facts: old.facts, missing: errUnlisted, index: old.index}
		if err := m.unread[old.index]; err != nil {
			lost.missing = err
		}
		m.cards = append(m.cards, lost)
	}
}

// readPairs asks about every two GPUs that can be reached, unless nothing about
// the two has changed; of others it keeps what was known. Two that could not reach
// each other, or not over their NVLinks, are asked about again: the fabric manager
// may have come meanwhile.
func (m *machine) readPairs(lib nvml.Library, before machine) error {
	for i, a := range m.cards {
		for _, b := range m.cards[i+1:] {
			key := [2]string{a.facts.UUID, b.facts.UUID}
			p, known := before.pairs[key]
			if known {
				m.pairs[key] = p
			}
			denied := p.NoNVLink && len(a.facts.Ports) > 0 && len(b.facts.Ports) > 0
			same := known && p.Peer && !denied && before.joinedAs(a) && before.joinedAs(b)
			if same || a.gpu == nil || b.gpu == nil {
				continue
			}
			p, err := lib.Pair(a.gpu, b.gpu)
			switch {
			case err != nil && nvml.Gone(err):
				return err
			case err == nil || !known:
				m.pairs[key] = p
			}
			// Otherwise one of the two is in trouble, and its own reading will
			// say so.
		}
	}
	return nil
}

// joinedAs tells that a GPU was there, with the same links.
func (m *machine) joinedAs(c *card) bool {
	i := slices.IndexFunc(m.cards, func(o *card) bool { return o.facts.UUID == c.facts.UUID })
	if i < 0 || m.cards[i].gpu == nil {
		return false
	}
	was, is := m.cards[i].facts, c.facts
	return was.MIG == is.MIG && slices.Equal(was.Ports, is.Ports) && reflect.DeepEqual(was.Fabric, is.Fabric)
}

// ignoresUnread tells that the GPUs that cannot be read are in all likelihood
// those that are to be ignored, which may be for just that.
func (m *machine) ignoresUnread() bool { return m.strangers() <= len(m.unmet) }

// strangers counts the GPUs that cannot be read and never were.
func (m *machine) strangers() int {
	n := len(m.unread)
	for _, c := range m.cards {
		if m.unread[c.index] != nil {
			n--
		}
	}
	return n
}

// incomplete tells that a GPU is known that has no handle.
func (m *machine) incomplete() bool {
	return len(m.unread) > 0 && !m.ignoresUnread() || slices.ContainsFunc(m.cards, func(c *card) bool { return c.gpu == nil })
}

// units lists what can be given to tasks, in the order of the PCI addresses.
func (m *machine) units() []unit {
	if m.all != nil {
		return m.all
	}
	for _, c := range m.cards {
		if !c.facts.MIG {
			m.all = append(m.all, unit{card: c})
			continue
		}
		for i := range c.facts.Instances {
			m.all = append(m.all, unit{card: c, instance: &c.facts.Instances[i]})
		}
	}
	return m.all
}

// matrix joins the units. MIG instances have no NVLink; those of one GPU are as
// near as can be.
func (m *machine) matrix(us []unit) *topology.Matrix {
	gpus := make([]topology.GPU, len(us))
	for i, u := range us {
		gpus[i].Bus = u.card.facts.Bus
		if u.instance != nil {
			continue
		}
		gpus[i].Ports = u.card.facts.Ports
		if f := u.card.facts.Fabric; f != nil && f.Ready {
			gpus[i].Fabric = fmt.Sprintf("%s/%d", f.Cluster, f.Clique)
		}
	}
	return topology.New(gpus, func(i, j int) topology.Pair {
		a, b := us[i], us[j]
		if a.card == b.card {
			return topology.Pair{Path: topology.PathPIX, NoNVLink: true}
		}
		p := m.pairs[[2]string{a.card.facts.UUID, b.card.facts.UUID}]
		if a.instance != nil || b.instance != nil {
			p.NoNVLink, p.Peer = true, false
		}
		return p
	})
}
