// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// stateRoute holds changes with one newcomer, with two, and with members that leave.
var stateRoute = []int{1, 2, 1, 3, 2}

// statePatience bounds a change, whatever the state's size. Receiving in the
// background gets only a small part of the time.
const statePatience = 6 * time.Minute

// frozen returns the flag for a state of mb MiB that steps do not touch. trained
// returns the flag for one of parameters and, of the same size, their momentum.
func frozen(mb int) string  { return fmt.Sprintf("--frozen=%d", mb) }
func trained(mb int) string { return fmt.Sprintf("--ballast=%d", mb/2) }

// measureState measures how a change depends on the size of the state.
func measureState(ctx context.Context, o *options, launchers []launcher, state *map[int]*Changes, flag func(mb int) string) error {
	if *state == nil {
		*state = map[int]*Changes{}
	}
	for _, mb := range o.stateMB {
		progress("= %d MiB", mb)
		changes := (*state)[mb]
		w := walk{route: stateRoute, args: []string{flag(mb)}, patience: statePatience}
		err := measureResizes(ctx, o, launchers, &changes, w)
		(*state)[mb] = changes
		if err != nil {
			return err
		}
		if err := o.keep(); err != nil {
			return err
		}
	}
	return nil
}

// measureBroadcast measures plain broadcasts of as many bytes.
func measureBroadcast(ctx context.Context, o *options, seconds *map[string][]float64) error {
	if *seconds == nil {
		*seconds = map[string][]float64{}
	}
	return runReform(ctx, o, "broadcast", o.stateMB, func(l reformLine) {
		key := strconv.Itoa(l.MB)
		(*seconds)[key] = append((*seconds)[key], l.Seconds)
	})
}

// writeState writes a table with a row for each size and launcher; broadcast may be
// nil.
func writeState(w *bytes.Buffer, state map[int]*Changes, launchers []launcher, broadcast map[string][]float64) {
	fmt.Fprintf(w, "**Pause**: the longest time between two steps from the request on, less a usual step. A plain broadcast is of as many bytes in one piece, between two\n"+
		"processes that do nothing else. The last columns are of 1→2: the pause in which the ring changes, a usual step of one and of two ranks, and how much\n"+
		"longer than that of one rank steps took while the newcomer received the state, and for how many seconds.\n\n")
	fmt.Fprintf(w, "| state | plain broadcast | | pause, 1→2 | / broadcast | 1→3 | 3→2 | 2→1 | at the switch | steps, before and after | meanwhile |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, mb := range slices.Sorted(maps.Keys(state)) {
		plain := broadcast[strconv.Itoa(mb)]
		for _, l := range launchers {
			by := state[mb].By[l.Name]
			if len(by) == 0 {
				continue
			}
			pauses := func(from, to int) []float64 { return pick(by[change(from, to)], pauseOf) }
			fmt.Fprintf(w, "| %d MiB | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", mb, spread(plain, 2), l.Name, spread(pauses(1, 2), 2), ratio(pauses(1, 2), plain),
				spread(pauses(1, 3), 2), spread(pauses(3, 2), 2), spread(pauses(2, 1), 2), spread(pick(by[change(1, 2)], switchOf), 2), meanwhile(by[change(1, 2)]))
		}
	}
	fmt.Fprintln(w)
	for _, mb := range slices.Sorted(maps.Keys(state)) {
		for _, l := range launchers {
			if n := state[mb].Lost[l.Name]; n > 0 {
				fmt.Fprintf(w, "- %d MiB, %s: %d changes never came\n", mb, l.Name, n)
			}
		}
	}
}

// meanwhile returns two columns: medians of step times before and after a change,
// and the steps while newcomers received.
func meanwhile(changes []Change) string {
	if len(changes) == 0 {
		return "– | –"
	}
	steps := fmt.Sprintf("%.2f, %.2f", median(pick(changes, func(c Change) float64 { return c.Before })), median(pick(changes, func(c Change) float64 { return c.After })))
	received := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Receiving == 0 })
	if len(received) == 0 {
		return steps + " | –"
	}
	return steps + fmt.Sprintf(" | %+.0f %%, %.1f s", 100*median(pick(received, func(c Change) float64 { return c.Slower })),
		median(pick(received, func(c Change) float64 { return c.Receiving })))
}

func pauseOf(c Change) float64  { return c.Pause }
func switchOf(c Change) float64 { return c.Switch }
