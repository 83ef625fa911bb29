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

// numbers are what NVLink islands and PCIe switches are called, which names of
// groups are made of. They are kept while the machine is up: Nomad knows the
// devices that a task holds by the name of their group, so one whose group got
// another name would be given to a second task. A link that goes down, a GPU that
// is cut by MIG or one that is found late must not change the name of another.
type numbers struct {
	// Boot is the kernel's id of this start of the machine.
	Boot string `json:"boot"`
	// Islands are by GPU, see [unit.islander]; Switches by PCI address.
	Islands  map[string]int `json:"islands"`
	Switches map[string]int `json:"switches"`
	// Taken are the GPUs that were given to a task. They never change islands,
	// for nobody says when a task gives them back.
	Taken map[string]bool `json:"taken"`
}

func newNumbers(boot string) numbers {
	return numbers{Boot: boot, Islands: map[string]int{}, Switches: map[string]int{}, Taken: map[string]bool{}}
}

func (n numbers) clone() numbers {
	n.Islands, n.Switches, n.Taken = maps.Clone(n.Islands), maps.Clone(n.Switches), maps.Clone(n.Taken)
	return n
}

// islander is what has a place in an island: a whole GPU, or all MIG instances
// of one together, for they are one GPU.
func (u unit) islander() string {
	if u.instance != nil {
		return "MIG of " + u.card.facts.UUID
	}
	return u.card.facts.UUID
}

// free is the least number that nobody has.
func free(taken map[string]int) int {
	used := map[int]bool{}
	for _, n := range taken {
		used[n] = true
	}
	n := 0
	for used[n] {
		n++
	}
	return n
}

// add numbers what has no number yet, and returns whether it changed anything.
// places are the PCIe switches in order, islands the units in order, by the
// NVLinks that are up now.
//
// Islands that have grown together, as when the fabric manager starts late,
// become one as far as no task has their GPUs.
func (n *numbers) add(places []string, islands [][]unit) bool {
	changed := false
	for _, place := range places {
		if _, known := n.Switches[place]; !known {
			n.Switches[place], changed = free(n.Switches), true
		}
	}
	for _, units := range islands {
		number := n.choose(units)
		for _, u := range units {
			id := u.islander()
			old, known := n.Islands[id]
			if known && (old == number || n.Taken[id]) {
				continue
			}
			n.Islands[id], changed = number, true
		}
	}
	return changed
}

// choose is the number for the units of one island: the least that a unit has
// that was given to a task, else the least that any has, else a new one.
func (n *numbers) choose(units []unit) int {
	best, bestTaken := -1, false
	for _, u := range units {
		id := u.islander()
		number, known := n.Islands[id]
		if !known {
			continue
		}
		taken := n.Taken[id]
		if best < 0 || taken && !bestTaken || taken == bestTaken && number < best {
			best, bestTaken = number, taken
		}
	}
	if best < 0 {
		return free(n.Islands)
	}
	return best
}

// places keeps the numbers in a file below /run, which lives as long as the
// machine is up, and so longer than this process.
type places struct {
	file string // empty: for this process alone
	log  hclog.Logger

	mu      sync.Mutex
	numbers numbers
	said    string // the last error of the file
}

// placesFile is below the root.
const placesFile = "/run/nomad-device-nvtopo/places.json"

// readPlaces returns what is known on this machine.
func readPlaces(root string, log hclog.Logger) *places {
	p := &places{file: filepath.Join(root, placesFile), log: log}
	boot, err := os.ReadFile(filepath.Join(root, "/proc/sys/kernel/random/boot_id"))
	if err != nil {
		log.Debug("the kernel's boot id is not known", "error", err)
	}
	p.numbers = newNumbers(strings.TrimSpace(string(boot)))
	text, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return p
	}
	before := newNumbers("")
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	switch {
	case err != nil:
		log.Warn("the numbers that islands and switches had cannot be read; they are numbered anew", "file", p.file, "error", err)
	case before.Boot == p.numbers.Boot && before.Islands != nil && before.Switches != nil && before.Taken != nil:
		p.numbers = before
	}
	return p
}

// add numbers what has no number yet and returns all numbers, which do not
// change any more.
func (p *places) add(switches []string, islands [][]unit) numbers {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numbers.add(switches, islands) || p.said != "" {
		p.write()
	}
	return p.numbers.clone()
}

// take notes that a task was given these units. Where known has the numbers that
// their groups are named by, it returns false when one has another by now: the
// machine is being read anew, and Nomad would look for the unit in a group that it
// is leaving.
func (p *places) take(units []unit, known map[string]int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range units {
		if n, named := known[u.islander()]; named && p.numbers.Islands[u.islander()] != n {
			return false
		}
	}
	changed := false
	for _, u := range units {
		if id := u.islander(); !p.numbers.Taken[id] {
			p.numbers.Taken[id], changed = true, true
		}
	}
	if changed {
		p.write()
	}
	return true
}

// write replaces the file. It is no reason to keep devices from Nomad that this
// fails, but one to say so.
func (p *places) write() {
	if p.file == "" {
		return
	}
	err := replace(p.file, p.numbers)
	switch {
	case err == nil:
		p.said = ""
	case p.said != err.Error():
		p.said = err.Error()
		p.log.Warn("the numbers of islands and switches cannot be kept; after a restart of the plugin they may be others", "error", err)
	}
}

func replace(file string, n numbers) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), "places-*.part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) //nolint:errcheck // it is gone when all went well
	_, err = part.Write(append(text, '\n'))
	if err := errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}
