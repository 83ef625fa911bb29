// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package eventtail

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

func TestEventsAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 20, 21, 0, 5, 0, time.UTC)
	e, err := parseEvent([]byte(`{"message":"\u001b[1m`+strings.Repeat("m", 3*plaintext.Limit)+`\n","time":"9999-01-01T00:00:00Z"}`), now)
	must.NoError(t, err)
	must.Eq(t, now, e.Time, must.Sprint("a time that Nomad cannot encode ends the stream of all events"))
	checkEvent(t, e)

	e, err = parseEvent([]byte(`{"message":"m","time":"0000-01-01T00:00:00Z"}`), now)
	must.NoError(t, err)
	must.Eq(t, now, e.Time)
}

// checkEvent checks what holds of every event, whatever the task wrote.
func checkEvent(t *testing.T, e Event) {
	t.Helper()
	must.NotEq(t, "", e.Message)
	must.LessEq(t, plaintext.Limit+64, len(e.Message))
	must.Between(t, 2000, e.Time.Year(), 2300)
	must.True(t, utf8.ValidString(e.Message))
	must.Eq(t, -1, strings.IndexFunc(e.Message, func(r rune) bool { return !unicode.IsPrint(r) }))
}

// FuzzEvent feeds lines to the reader of events.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"time":"2026-11-20T21:00:00Z","message":"ring 3","annotations":{"ring":"3"}}`))
	f.Add([]byte("{\"message\":\"\x1b[31m\\u001b]0;x\\u0007\\u202e\"}"))
	f.Add([]byte(`{"message":"m","annotations":{"":"","a":null},"time":"0000-01-01T00:00:00Z"}`))
	now := time.Date(2026, 11, 20, 21, 0, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseEvent(line, now)
		if err != nil {
			return
		}
		checkEvent(t, e)
	})
}
