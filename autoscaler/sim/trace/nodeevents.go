// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
)

// OpenNodeEvents reads a CSV file with the columns time (seconds from the first arrival),
// node and event (down, up or withdraw).
func OpenNodeEvents(path string) ([]NodeEvent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("node events: %w", err)
	}
	defer f.Close()
	return ReadNodeEvents(f, path)
}

// ReadNodeEvents is like OpenNodeEvents, but reads an open file of the given name.
func ReadNodeEvents(r io.Reader, file string) ([]NodeEvent, error) {
	tab, err := newTable(r, file, "time", "node", "event")
	if err != nil {
		return nil, err
	}
	var out []NodeEvent
	err = tab.each(func() error {
		e := NodeEvent{Time: tab.float("time", 0), Node: tab.text("node")}
		if e.Kind, err = ParseNodeEventKind(tab.text("event")); err != nil {
			tab.fail("event", err)
		}
		out = append(out, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b NodeEvent) int { return cmp.Compare(a.Time, b.Time) })
	return out, nil
}
