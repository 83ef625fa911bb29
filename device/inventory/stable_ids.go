// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// stableIDsFile is relative to the root.
const stableIDsFile = "/run/nomad-device-nvtopo/stable-ids.json"

// StableIDs assigns IDs to NVLink islands and PCIe switches. It keeps them in a
// file below /run. The file exists until the machine reboots, so it survives a
// restart of this process.
//
// Names of groups contain these IDs, and a scheduler identifies a task's GPUs by
// the name of their group. If that name changed, the scheduler would give the GPUs
// to a second task. So the IDs of a GPU's island and switch do not change if a link
// goes down, MIG splits another GPU, or another GPU is found late.
type StableIDs struct {
	file string // empty if the IDs are for this process only
	log  hclog.Logger

	mu     sync.Mutex
	ids    ids
	logged string // the last error of the file
}

// OpenStableIDs reads the IDs of this machine, and keeps the file up to date from
// then on. root is prepended to /run and /proc.
func OpenStableIDs(root string, log hclog.Logger) *StableIDs {
	s := &StableIDs{file: filepath.Join(root, stableIDsFile), log: log}
	boot, err := os.ReadFile(filepath.Join(root, "/proc/sys/kernel/random/boot_id"))
	if err != nil {
		log.Debug("the kernel's boot id is unknown", "error", err)
	}
	s.ids = newIDs(strings.TrimSpace(string(boot)))
	text, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	before := newIDs("")
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	switch {
	case err != nil:
		log.Warn("cannot read the ids of islands and switches; assigning new ones", "file", s.file, "error", err)
	case before.Boot == s.ids.Boot && before.complete():
		s.ids = before
	}
	return s
}

// ReadStableIDs reads the IDs of this machine and never writes them.
func ReadStableIDs(root string) *StableIDs {
	s := OpenStableIDs(root, hclog.NewNullLogger())
	s.file = ""
	return s
}

// assign assigns missing IDs, and returns a copy of all IDs.
func (s *StableIDs) assign(switches []string, islands [][]Unit) ids {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids.assign(switches, islands) || s.logged != "" {
		s.write()
	}
	return s.ids.clone()
}

// Reserve records that a task was given units of a layout. From then on, the island
// IDs of these units never change. If groups are islands, one of the units may
// belong to another island by now. Reserve then returns false: the scheduler would
// look for the unit in its old group, and has to wait until the machine has been
// read again.
func (s *StableIDs) Reserve(l Layout, units []Unit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.By == GroupByNVLink {
		offered := map[string]int{}
		for i, u := range l.Units {
			offered[u.islandKey()] = l.islandIDs[i]
		}
		for _, u := range units {
			if id, known := offered[u.islandKey()]; known && s.ids.Islands[u.islandKey()] != id {
				return false
			}
		}
	}
	changed := false
	for _, u := range units {
		if key := u.islandKey(); !s.ids.Reserved[key] {
			s.ids.Reserved[key], changed = true, true
		}
	}
	if changed {
		s.write()
	}
	return true
}

// write replaces the file. An error is logged once, and does not withhold devices
// from Nomad.
func (s *StableIDs) write() {
	if s.file == "" {
		return
	}
	err := s.ids.replace(s.file)
	switch {
	case err == nil:
		s.logged = ""
	case s.logged != err.Error():
		s.logged = err.Error()
		s.log.Warn("cannot store the ids of islands and switches; they may change when the plugin restarts", "error", err)
	}
}

// ids is the content of the file.
type ids struct {
	// Boot is the kernel's ID of this boot.
	Boot string `json:"boot"`
	// Islands holds IDs by [Unit.islandKey], Switches by [Unit.switchKey].
	Islands  map[string]int `json:"islands"`
	Switches map[string]int `json:"switches"`
	// Reserved holds the island keys of GPUs that were given to a task. Nomad does
	// not report when a task ends, so they stay reserved.
	Reserved map[string]bool `json:"reserved"`
}

func newIDs(boot string) ids {
	return ids{Boot: boot, Islands: map[string]int{}, Switches: map[string]int{}, Reserved: map[string]bool{}}
}

func (n ids) complete() bool { return n.Islands != nil && n.Switches != nil && n.Reserved != nil }

func (n ids) clone() ids {
	n.Islands, n.Switches, n.Reserved = maps.Clone(n.Islands), maps.Clone(n.Switches), maps.Clone(n.Reserved)
	return n
}

// unused returns the lowest ID that is not assigned.
func unused(assigned map[string]int) int {
	used := map[int]bool{}
	for _, id := range assigned {
		used[id] = true
	}
	id := 0
	for used[id] {
		id++
	}
	return id
}

// assign assigns missing IDs, and reports whether it changed anything. Switches are
// in order, and islands have their units in order, by the NVLinks that are up now.
//
// Islands that have merged, for example because the fabric manager started late,
// become one, except for reserved GPUs.
func (n *ids) assign(switches []string, islands [][]Unit) bool {
	changed := false
	for _, key := range switches {
		if _, known := n.Switches[key]; !known {
			n.Switches[key], changed = unused(n.Switches), true
		}
	}
	for _, units := range islands {
		id := n.choose(units)
		for _, u := range units {
			key := u.islandKey()
			old, known := n.Islands[key]
			if known && (old == id || n.Reserved[key]) {
				continue
			}
			n.Islands[key], changed = id, true
		}
	}
	return changed
}

// choose returns the ID for the units of one island: the lowest of a reserved unit,
// otherwise the lowest of any unit, otherwise an unused one.
func (n *ids) choose(units []Unit) int {
	best, bestReserved := -1, false
	for _, u := range units {
		key := u.islandKey()
		id, known := n.Islands[key]
		if !known {
			continue
		}
		reserved := n.Reserved[key]
		if best < 0 || reserved && !bestReserved || reserved == bestReserved && id < best {
			best, bestReserved = id, reserved
		}
	}
	if best < 0 {
		return unused(n.Islands)
	}
	return best
}

// replace writes the file atomically.
func (n ids) replace(file string) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), "stable-ids-*.part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) //nolint:errcheck // after a rename it no longer exists
	_, err = part.Write(append(text, '\n'))
	if err := errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}
