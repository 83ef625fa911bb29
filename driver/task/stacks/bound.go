// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"strings"
	"unicode"
)

// The limits of a Report. Longer lists and texts are cut.
const (
	MaxRanks   = 64 // of an allocation
	MaxWorkers = 64 // of a rank
	maxThreads = 64
	maxFrames  = 64
	maxText    = 200 // bytes
)

// bound cuts everything in the report to its limit and makes its texts printable.
func (r *Report) bound() {
	if n := len(r.Ranks) - MaxRanks; n > 0 {
		r.Ranks, r.Dropped = r.Ranks[:MaxRanks], r.Dropped+n
	}
	r.Size, r.Dropped = max(r.Size, 0), max(r.Dropped, 0)
	for i := range r.Ranks {
		rank := &r.Ranks[i]
		rank.Rank, rank.Step, rank.DroppedWorkers = max(rank.Rank, NoRank), max(rank.Step, 0), max(rank.DroppedWorkers, 0)
		if n := len(rank.Workers) - MaxWorkers; n > 0 {
			rank.Workers, rank.DroppedWorkers = rank.Workers[:MaxWorkers], rank.DroppedWorkers+n
		}
		rank.bound()
		for w := range rank.Workers {
			rank.Workers[w].bound()
		}
	}
}

func (p *Process) bound() {
	for _, text := range []*string{&p.Command, &p.Syscall, &p.Wchan, &p.Source, &p.Missing, (*string)(&p.State)} {
		*text = head(*text)
	}
	p.Threads = p.Threads[:min(len(p.Threads), maxThreads)]
	for i := range p.Threads {
		t := &p.Threads[i]
		t.Name = head(t.Name)
		if len(t.Frames) > maxFrames {
			t.Frames, t.Cut = t.Frames[:maxFrames], true
		}
		for j := range t.Frames {
			f := &t.Frames[j]
			*f = Frame{Function: head(f.Function), File: tail(f.File), Line: max(f.Line, 0)}
		}
	}
}

// head returns the beginning of a text in printable characters.
func head(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return printable(s)
}

// tail returns the end of a path in printable characters, because the end names the file.
func tail(s string) string {
	if len(s) > maxText {
		s = "…" + strings.ToValidUTF8(s[len(s)-maxText:], "")
	}
	return printable(s)
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
