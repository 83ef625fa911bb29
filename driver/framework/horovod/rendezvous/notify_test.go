// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// notice is a notice as the Python side of a test received it.
type notice struct {
	Error      string            `json:"error"`
	Class      string            `json:"class"`
	Attributes map[string]int64  `json:"attributes"`
	Types      map[string]string `json:"types"`
	IsKnown    bool              `json:"is_known"`
}

// script is a Python program that prints lines.
type script struct {
	t     *testing.T
	lines *bufio.Scanner
	stdin io.WriteCloser
}

// startScript runs a program of testdata until the end of the test.
func startScript(t *testing.T, python, file string, args ...string) *script {
	t.Helper()
	cmd := exec.CommandContext(withTimeout(t), python, append([]string{filepath.Join("testdata", file)}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &script{t: t, lines: bufio.NewScanner(stdout), stdin: stdin}
}

func (s *script) line() string {
	s.t.Helper()
	must.True(s.t, s.lines.Scan(), must.Sprint("the Python program ended"))
	return s.lines.Text()
}

func (s *script) notice() notice {
	s.t.Helper()
	var n notice
	must.NoError(s.t, json.Unmarshal([]byte(s.line()), &n))
	return n
}

var testKey = []byte("0123456789abcdef0123456789abcdef")

func startService(t *testing.T, behaviours ...string) (*script, rendezvous.NotifyTarget) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	s := startScript(t, python, "notification_service.py", append([]string{hex.EncodeToString(testKey)}, behaviours...)...)
	port, err := strconv.Atoi(s.line())
	must.NoError(t, err)
	return s, rendezvous.NotifyTarget{Port: port, Key: testKey}
}

// Python's own unpickler turns the agent's requests into those that Horovod would
// have sent.
func TestNotify_Python(t *testing.T) {
	service, target := startService(t, "answers", "answers-byte-by-byte", "answers")
	ctx := withTimeout(t)

	for _, timestamp := range []int64{1795200509, math.MaxInt64, -1} {
		must.NoError(t, target.Notify(ctx, timestamp))
		must.Eq(t, notice{
			Class:      "horovod.runner.elastic.worker.HostsUpdatedRequest",
			Attributes: map[string]int64{"timestamp": timestamp, "res": 3},
			Types:      map[string]string{"timestamp": "int", "res": "int"},
			IsKnown:    true,
		}, service.notice())
	}
}

// A reply that is not from the process is an error, and the agent waits no longer
// than the caller allows.
func TestNotify_BadReplies(t *testing.T) {
	behaviours := map[string]string{
		"signs-with-another-key":   "not signed",
		"answers-something-else":   "not a AckResponse",
		"answers-half":             "cut short",
		"claims-a-gigabyte":        "more than",
		"claims-less-than-nothing": "more than",
		"closes":                   "no reply",
	}
	for behaviour, want := range behaviours {
		t.Run(behaviour, func(t *testing.T) {
			_, target := startService(t, behaviour)
			must.ErrorContains(t, target.Notify(withTimeout(t), 1), want)
		})
	}
	t.Run("answers nothing", func(t *testing.T) {
		service, target := startService(t, "says-nothing")
		ctx, cancel := context.WithCancel(withTimeout(t))
		failed := make(chan error, 1)
		go func() { failed <- target.Notify(ctx, 1) }()
		// The service has our request and keeps silent: now give up.
		select {
		case err := <-failed:
			t.Fatalf("came back before it was cancelled: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		cancel()
		must.ErrorIs(t, <-failed, context.Canceled)
		must.Eq(t, "horovod.runner.elastic.worker.HostsUpdatedRequest", service.notice().Class)
	})
	t.Run("wrong key on our side", func(t *testing.T) {
		service, target := startService(t, "answers")
		target.Key = []byte("another key")
		must.ErrorContains(t, target.Notify(withTimeout(t), 1), "no reply")
		must.Eq(t, "digest", service.notice().Error)
	})
	t.Run("no listener", func(t *testing.T) {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		must.NoError(t, err)
		port := ln.Addr().(*net.TCPAddr).Port
		must.NoError(t, ln.Close())
		must.Error(t, rendezvous.NotifyTarget{Port: port, Key: testKey}.Notify(withTimeout(t), 1))
	})
}

// addresses is a Handler that waits for worker_addresses.
type addresses struct {
	refuseAll
	got chan rendezvous.NotifyTarget
}

func (a *addresses) WorkerAddress(_ context.Context, t rendezvous.NotifyTarget) error {
	a.got <- t
	return nil
}

// The real Horovod registers with an endpoint and accepts the agent's notices.
func TestNotify_Horovod(t *testing.T) {
	python := os.Getenv("KOLO_PYTHON")
	if python == "" {
		t.Skip("needs KOLO_PYTHON, a Python that can import horovod")
	}
	if out, err := exec.Command(python, "-c", "import horovod.runner.elastic.worker").CombinedOutput(); err != nil {
		t.Skipf("%s cannot import horovod: %s", python, strings.TrimSpace(string(out)))
	}
	handler := &addresses{got: make(chan rendezvous.NotifyTarget, 1)}
	endpoint, err := rendezvous.Listen(handler, ringsim.AnyPeer{}, hclog.NewNullLogger())
	must.NoError(t, err)
	defer endpoint.Close()
	worker := startScript(t, python, "horovod_worker.py", strconv.Itoa(endpoint.Port()))

	ctx := withTimeout(t)
	var target rendezvous.NotifyTarget
	select {
	case target = <-handler.got:
	case <-ctx.Done():
		t.Fatal("Horovod did not register where it listens")
	}
	for _, timestamp := range []int64{1795200509, 1795200510} {
		must.NoError(t, target.Notify(ctx, timestamp))
		var got struct{ Timestamp, Res int64 }
		must.NoError(t, json.Unmarshal([]byte(worker.line()), &got))
		must.Eq(t, timestamp, got.Timestamp)
		must.Eq(t, 3, got.Res)
	}
}
