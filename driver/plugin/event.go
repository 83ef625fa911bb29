// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// maxEventLine is the longest line read as an event.
	maxEventLine = 16 << 10
	// maxMessage is the longest message passed on.
	maxMessage = 1 << 10
	// maxAnnotations of at most maxAnnotation bytes each, name and value, are
	// passed on with an event.
	maxAnnotations = 16
	maxAnnotation  = 256
	// eventBurst events at once, and one more every eventRefill, are passed on
	// for one task. Nomad sends each to its servers and keeps ten.
	eventBurst  = 20
	eventRefill = 2 * time.Second
)

// eventLine is one line of the agent's event file.
type eventLine struct {
	Time        time.Time         `json:"time"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// parseEvent reads a line as an event that is fit to be shown: on one line,
// without what a terminal takes for a command, and of a bounded size. The task
// may have written anything.
func parseEvent(line []byte, now time.Time) (eventLine, error) {
	var e eventLine
	if err := json.Unmarshal(line, &e); err != nil {
		return eventLine{}, err
	}
	if e.Message = oneLine(e.Message, maxMessage); e.Message == "" {
		return eventLine{}, errors.New("no message")
	}
	// Nomad cannot encode every time, and would end the stream of all events.
	if e.Time.Year() < 2000 || e.Time.After(now.Add(24*time.Hour)) {
		e.Time = now
	}
	annotations := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(e.Annotations)) {
		if name := oneLine(key, maxAnnotation); name != "" && len(annotations) < maxAnnotations {
			annotations[name] = oneLine(e.Annotations[key], maxAnnotation)
		}
	}
	if e.Annotations = annotations; len(annotations) == 0 {
		e.Annotations = nil
	}
	return e, nil
}

// escapeSequence is a command to a terminal: to set colours and the like (CSI),
// or its title and clipboard (OSC and its kin, up to their end).
var escapeSequence = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[]PX^_][^\x07\x1b]*(\x07|\x1b\\\\)?")

// oneLine makes a text fit to be shown on one line, with at most limit bytes of
// it.
func oneLine(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Join(strings.Fields(escapeSequence.ReplaceAllString(s, "")), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) { // neither control characters nor such as change the direction of what follows
			return r
		}
		return -1
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + " …"
	}
	return s
}

// flow bounds how many events of one task are passed on.
type flow struct {
	tokens  float64
	filled  time.Time
	skipped int
}

func newFlow(now time.Time) flow { return flow{tokens: eventBurst, filled: now} }

// take says whether one more event may be passed on, and how many before it were
// not.
func (f *flow) take(now time.Time) (skipped int, ok bool) {
	f.tokens = min(eventBurst, f.tokens+now.Sub(f.filled).Seconds()/eventRefill.Seconds())
	f.filled = now
	if f.tokens < 1 {
		f.skipped++
		return 0, false
	}
	f.tokens--
	skipped, f.skipped = f.skipped, 0
	return skipped, true
}
