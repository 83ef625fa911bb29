// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

type anyCaller struct{}

func (anyCaller) Admit(_, _ netip.AddrPort) error { return nil }

// recorder notes what a server passes on.
type recorder struct {
	mu    sync.Mutex
	heard []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, fmt.Sprintf(format, args...))
}

func (r *recorder) Hello(h Hello) error {
	r.note("hello %s %s", h.Client, h.Torch)
	if h.Torch == "1.13" {
		return errors.New("too old")
	}
	return nil
}

func (r *recorder) Ready(g uint64) { r.note("ready %d", g) }
func (r *recorder) Forming(g uint64, round int, listening []netip.AddrPort) {
	r.note("forming %d round %d at %v", g, round, listening)
}

func (r *recorder) Formed(g uint64, round int, listening []netip.AddrPort, known bool) {
	r.note("formed %d round %d at %v known %v", g, round, listening, known)
}

func (r *recorder) Progress(g uint64, line []byte) {
	p, ok := wire.ParseProgress(line)
	r.note("progress %d %v %v", g, ok, p.Step != nil && p.Loss == nil)
}
func (r *recorder) Refused(err error) { r.note("refused %v", err) }

// expect waits for what was passed on since the last call.
func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.heard) < len(want) {
			return fmt.Errorf("%q so far", r.heard)
		}
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	must.Eq(t, want, r.heard)
	r.heard = nil
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(f), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
}

func start(t *testing.T) (*Server, *recorder) {
	r := &recorder{}
	s, err := Listen(r, anyCaller{}, hclog.NewNullLogger())
	must.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, r
}

// process is the other end.
type process struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func dial(t *testing.T, s *Server) *process {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port()))
	must.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return &process{c, t, bufio.NewReader(c)}
}

func (p *process) say(line string) {
	p.t.Helper()
	_, err := io.WriteString(p, line+"\n")
	must.NoError(p.t, err)
}

func (p *process) hello(s *Server) *process {
	p.t.Helper()
	p.say(`{"type":"hello","version":1,"secret":"` + s.Secret() + `","client":"c","torch":"2.6.0","pid":7}`)
	must.Eq(p.t, map[string]any{"type": "welcome", "version": 1.0}, p.hear())
	return p
}

// hear returns the next message, nil at the connection's end.
func (p *process) hear() map[string]any {
	p.t.Helper()
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		return nil
	}
	var m map[string]any
	must.NoError(p.t, json.Unmarshal(line, &m))
	return m
}

func TestConversation(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.Change(1) // no one is there yet
	p := dial(t, s).hello(s)
	p.say(`{"type":"ready","generation":0,"reason":"start"}`)
	r.expect(t, "hello c 2.6.0", "ready 0")
	s.Place(Place{Generation: 3, Rank: 1, Size: 2, LocalSize: 1, CrossRank: 1, CrossSize: 2, Newcomers: []int{1}})
	must.Eq(t, map[string]any{"type": "place", "generation": 3.0, "rank": 1.0, "size": 2.0, "local_rank": 0.0, "local_size": 1.0,
		"cross_rank": 1.0, "cross_size": 2.0, "newcomers": []any{1.0}}, p.hear())
	s.Change(3)
	s.Broken(3)
	must.Eq(t, map[string]any{"type": "change", "generation": 3.0}, p.hear())
	must.Eq(t, map[string]any{"type": "broken", "generation": 3.0}, p.hear())
	p.say(`{"type":"forming","generation":3,"listening":["10.0.0.1:3000"]}`)
	p.say(`{"type":"forming","generation":3}`)
	p.say(`{"type":"formed","generation":3}`)
	p.say(`{"type":"formed","generation":3,"round":2,"listening":["10.0.0.1:3000","[fd00::1]:4"]}`)
	p.say(`{"type":"formed","generation":3,"listening":[]}`)
	p.say(`{"type":"song","of":"the future"}`)
	p.say(`{"type":"progress","generation":3,"step":4,"loss":NaN}`)
	p.say(`{"type":"ready","generation":3,"reason":"commit"}`)
	r.expect(t, "forming 3 round 1 at [10.0.0.1:3000]", "formed 3 round 1 at [] known false", "formed 3 round 2 at [10.0.0.1:3000 [fd00::1]:4] known true",
		"formed 3 round 1 at [] known true", "progress 3 true true", "ready 3")
	s.Place(Place{Generation: 4, Size: 1})
	must.Eq(t, []any{}, p.hear()["newcomers"].([]any))
	must.NoError(t, s.Close())
	must.Nil(t, p.hear())
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	hello := func(s *Server, torch string) string {
		return `{"type":"hello","version":1,"secret":"` + s.Secret() + `","client":"c","torch":"` + torch + `"}`
	}
	for name, c := range map[string]struct {
		lines func(*Server) []string
		want  string
	}{
		"wrong secret": {func(*Server) []string { return []string{`{"type":"hello","version":1,"secret":"0123"}`} }, "the secret is not this slot's"},
		"no secret":    {func(*Server) []string { return []string{`{"type":"hello","version":1}`} }, "the secret is not this slot's"},
		"no hello":     {func(*Server) []string { return []string{`{"type":"ready","generation":0}`} }, "begins with hello"},
		"no JSON":      {func(*Server) []string { return []string{"GET / HTTP/1.1"} }, "not a JSON object"},
		"another type": {func(*Server) []string { return []string{`{"type":7}`} }, `field "type" of message "": is a JSON number, must be a string`},
		"text for a number": {func(s *Server) []string {
			return []string{hello(s, "2.6"), `{"type":"ready","generation":"0"}`}
		}, `field "generation" of message "ready": is a JSON string, must be a whole number, 0 or more`},
		"a negative generation": {func(s *Server) []string {
			return []string{hello(s, "2.6"), `{"generation":-1,"type":"formed"}`}
		}, `field "generation" of message "formed": is a JSON number -1, must be a whole number, 0 or more`},
		"a client that is a list": {func(*Server) []string { return []string{`{"type":"hello","client":[]}`} },
			`field "client" of message "hello": is a JSON array, must be a string`},
		"a list":         {func(*Server) []string { return []string{`[]`} }, "not a JSON object"},
		"a long line":    {func(*Server) []string { return []string{`{"type":"` + strings.Repeat("x", maxLine) + `"}`} }, "longer than 65536 bytes"},
		"an old PyTorch": {func(s *Server) []string { return []string{hello(s, "1.13")} }, "too old"},
		"a long line later": {func(s *Server) []string {
			return []string{hello(s, "2.6"), `{"type":"progress","x":"` + strings.Repeat("x", maxLine) + `"}`}
		}, "longer than 65536 bytes"},
		"addresses beyond the bound": {func(s *Server) []string {
			return []string{hello(s, "2.6"), `{"type":"formed","listening":["[::1]:1"` + strings.Repeat(`,"[::1]:1"`, maxListening) + `]}`}
		}, `field "listening" of message "formed": has 257 addresses, must have at most 256`},
		"an address that is none": {func(s *Server) []string { return []string{hello(s, "2.6"), `{"type":"formed","listening":["lo:1"]}`} },
			`field "listening" of message "formed": `},
		"a round beyond the bound": {func(s *Server) []string { return []string{hello(s, "2.6"), `{"type":"formed","round":17}`} },
			`field "round" of message "formed": is 17`},
		"another version": {func(s *Server) []string {
			return []string{strings.Replace(hello(s, "2.6"), `"version":1`, `"version":2`, 1)}
		}, "speaks version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := start(t)
			p := dial(t, s)
			for _, line := range c.lines(s) {
				p.say(line)
			}
			m := p.hear()
			if m["type"] == "welcome" {
				m = p.hear()
			}
			must.Eq(t, "error", m["type"].(string))
			must.StrContains(t, m["message"].(string), c.want)
			must.Nil(t, p.hear(), must.Sprint("the connection ends"))
			eventually(t, func() error {
				r.mu.Lock()
				defer r.mu.Unlock()
				if n := len(r.heard); n == 0 || !strings.HasPrefix(r.heard[n-1], "refused") {
					return fmt.Errorf("%q", r.heard)
				}
				return nil
			})
			dial(t, s).hello(s) // the slot's own process is answered as before
		})
	}
}

func TestAnotherConnectionTakesTheProcessesPlace(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := dial(t, s).hello(s)
	second := dial(t, s).hello(s)
	must.Nil(t, first.hear())
	second.say(`{"type":"ready","generation":5}`)
	r.expect(t, "hello c 2.6.0", "hello c 2.6.0", "ready 5")
	s.Change(5)
	must.Eq(t, "change", second.hear()["type"].(string))
}

// Connections without a hello displace no connection of the slot's process.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	p := dial(t, s).hello(s)
	var held []*process
	for range maxStrangers {
		held = append(held, dial(t, s))
	}
	eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unknown < maxStrangers {
			return fmt.Errorf("%d", s.unknown)
		}
		return nil
	})
	tooMany, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port()))
	if err == nil { // else it was reset as it connected
		_, err = tooMany.Read(make([]byte, 1))
		_ = tooMany.Close()
	}
	must.ErrorIs(t, err, syscall.ECONNRESET)
	p.say(`{"type":"ready","generation":1}`)
	r.expect(t, "hello c 2.6.0", "ready 1")
	must.NoError(t, held[0].Close())
	eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unknown == maxStrangers {
			return errors.New("it is still counted")
		}
		return nil
	})
	dial(t, s).hello(s)
}

// A flood is read at a limited rate, and later messages are not lost.
func TestAFloodIsSlowedDown(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	p := dial(t, s).hello(s)
	began := time.Now()
	p.say(strings.TrimSuffix(strings.Repeat(`{"type":"song"}`+"\n", maxBurst+maxRate/2), "\n"))
	p.say(`{"type":"ready","generation":1}`)
	r.expect(t, "hello c 2.6.0", "ready 1")
	must.Greater(t, 300*time.Millisecond, time.Since(began))
}

// A process that reads nothing does not block its agent.
func TestAProcessThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s, _ := start(t)
	dial(t, s).hello(s)
	big := make([]int, 8<<10)
	for g := range 10 * maxQueue {
		s.Place(Place{Generation: uint64(g + 1), Newcomers: big}) // not the same twice
		s.Change(1)
	}
	eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.present != nil {
			return errors.New("it is still connected")
		}
		return nil
	})
}

// FuzzParse: any line is a message or an error.
func FuzzParse(f *testing.F) {
	for _, line := range []string{`{"type":"hello","version":1,"secret":"x"}`, `{"type":"progress","loss":-Infinity}`, `{"generation":-1}`, `[]`, `{`, ``} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(_ *testing.T, line []byte) {
		r, err := parse(line)
		if err == nil && r.Type == typeProgress {
			wire.ParseProgress(line)
		}
	})
}
