// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Refusals are one task event, however many there are.
func TestRefusalsAreReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	st, err := events.Open(file, hclog.NewNullLogger())
	must.NoError(t, err)
	defer st.Close()
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 2}}, ID: "h", Events: st, Logger: hclog.NewNullLogger()})
	for local := range 2 {
		c := h.newCallerCheck(local)
		defer c.close()
		// The agent's own end of a connection to another process of the machine.
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must.NoError(t, err)
		defer func() { _ = l.Close() }()
		i := intrudertest.Start(t, l.Addr().(*net.TCPAddr).Port, os.Getuid(), "hold2")
		must.Eq(t, "hold2 done", i.Result(t))
		for range 2 {
			conn, err := l.Accept()
			must.NoError(t, err)
			must.Error(t, c.Admit(conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()))
			must.NoError(t, conn.Close())
		}
		must.Eq(t, 2, c.refused.Load())
		(<-h.todo)()
	}
	events, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Eq(t, 1, strings.Count(string(events), "\n"))
	must.StrContains(t, string(events), "slot 0: refused a connection to its agent's port")
}

// A refusal does not wait for the host's goroutine, which may be closing the endpoint. To
// close, the endpoint waits for pending checks, while other slots report progress.
func TestRefusalsWaitForNoOne(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "h", Logger: hclog.NewNullLogger()})
	defer h.quit()
	for range cap(h.todo) {
		h.post(func() {})
	}
	c := h.newCallerCheck(0)
	defer c.close()
	done := make(chan struct{})
	go func() {
		c.first("not a process of this task")
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the check of a caller waits for the host's goroutine")
	}
}
