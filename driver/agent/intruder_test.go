// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// intruderMode makes this test binary a process of another tenant: it detaches
// itself from the test, in a session of its own, and attacks the rendezvous
// endpoint at the port that the variable names.
const intruderMode = "KOLO_TEST_INTRUDER"

// intruderUser is the user that the intruder becomes.
const intruderUser = "KOLO_TEST_INTRUDER_UID"

// detachedMark is the argument of the process that has detached itself.
const detachedMark = "detached"

// intruder is an attacking process as the test sees it.
type intruder struct {
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// startIntruder runs one of intruderMain's attacks as a user; it ends when the
// test does.
func startIntruder(t *testing.T, port, uid int, attack string) *intruder {
	t.Helper()
	cmd := exec.Command(os.Args[0], attack)
	cmd.Env = append(os.Environ(), intruderMode+"="+strconv.Itoa(port), intruderUser+"="+strconv.Itoa(uid))
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	// Not StdoutPipe: Wait would close it, and the detached process writes to it.
	read, write, err := os.Pipe()
	must.NoError(t, err)
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	must.NoError(t, cmd.Start())
	must.NoError(t, write.Close())
	t.Cleanup(func() { _ = stdin.Close(); _, _ = io.Copy(io.Discard, read); _ = cmd.Wait() })
	return &intruder{stdin: stdin, lines: bufio.NewScanner(read)}
}

// result is the attack's next line.
func (i *intruder) result(t *testing.T) string {
	t.Helper()
	must.True(t, i.lines.Scan(), must.Sprint("the intruder ended"))
	return i.lines.Text()
}

func intruderMain(attack string) int {
	if len(os.Args) < 4 || os.Args[2] != detachedMark {
		cmd := exec.Command(os.Args[0], attack, detachedMark, strconv.Itoa(os.Getpid()))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 1
		}
		return 0
	}
	if uid := envInt(intruderUser); uid != os.Getuid() && syscall.Setuid(uid) != nil {
		return 1
	}
	// As long as its first parent lives it descends from the test.
	for strconv.Itoa(os.Getppid()) == os.Args[3] {
		time.Sleep(time.Millisecond)
	}
	in := &intrusion{addr: "127.0.0.1:" + os.Getenv(intruderMode)}
	for _, a := range strings.Split(attack, ",") {
		fmt.Println(a, in.run(a))
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// intrusion is the attacker's side.
type intrusion struct {
	addr string
	held []net.Conn
}

func (in *intrusion) run(attack string) string {
	switch attack {
	case "read":
		return in.request("GET", "/global/rank_0", nil)
	case "forge":
		return in.request("PUT", "/forged/0", bytes.Repeat([]byte{1}, blobEntry))
	case "notify":
		return in.request("PUT", "/worker_addresses/x:0", forgedTarget(4242))
	case "delete":
		return in.request("DELETE", "/forged/0", nil)
	case "flood":
		for range 4 {
			go in.flood()
		}
		return "done"
	}
	n, err := strconv.Atoi(strings.TrimPrefix(attack, "hold"))
	if err != nil {
		return err.Error()
	}
	for range n {
		c, err := net.Dial("tcp4", in.addr)
		if errors.Is(err, syscall.ECONNRESET) {
			continue // cut off already
		}
		if err != nil {
			return err.Error()
		}
		in.held = append(in.held, c)
	}
	return "done"
}

// flood connects again and again, for as long as the process lives.
func (in *intrusion) flood() {
	for {
		if c, err := net.Dial("tcp4", in.addr); err == nil {
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}
}

// request returns the status of the answer, or that there is none.
func (in *intrusion) request(method, path string, body []byte) string {
	req, err := http.NewRequest(method, "http://"+in.addr+path, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		return "unanswered"
	case err != nil:
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	return strconv.Itoa(resp.StatusCode)
}

// forgedTarget is the body with which a process registers for notices: the
// pair ({"lo": [("127.0.0.1", port)]}, key), pickled.
func forgedTarget(port uint16) []byte {
	p := "\x80\x04}\x8c\x02lo]\x8c\x09127.0.0.1M" + string(binary.LittleEndian.AppendUint16(nil, port)) + "\x86asC\x03key\x86."
	return []byte(base64.StdEncoding.EncodeToString([]byte(p)))
}

// slotPort returns the rendezvous port of a host's first slot.
func (j *job) slotPort(name string) int {
	j.r.mu.Lock()
	h := j.r.hosts[name].host
	j.r.mu.Unlock()
	c := make(chan int, 1)
	h.post(func() { c <- h.slots[0].endpoint.Port() })
	return <-c
}

// notifyPort returns the port to which notices for a host's first slot go.
func (j *job) notifyPort(name string) int {
	j.r.mu.Lock()
	h := j.r.hosts[name].host
	j.r.mu.Unlock()
	c := make(chan int, 1)
	h.post(func() { c <- h.slots[0].target.Port })
	return <-c
}

// A process that is not of the task is not answered, whoever runs it: it reads
// and writes no address, replaces no notify target and removes no slot.
func TestForeignProcessIsNotAnswered(t *testing.T) {
	t.Parallel()
	users := map[string]int{"the same user": os.Getuid()}
	if os.Getuid() == 0 {
		users["another user"] = 65534
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := startJob(t, 0, "a:1")
			j.size(1)
			i := startIntruder(t, j.slotPort("a"), uid, "read,forge,notify,delete")
			results := []string{i.result(t), i.result(t), i.result(t), i.result(t)}
			must.Eq(t, []string{"read unanswered", "forge unanswered", "notify unanswered", "delete unanswered"}, results)
			must.NotEq(t, 4242, j.notifyPort("a"))
			j.list("a:2") // the slot itself is answered as before
			j.size(2)
		})
	}
}

// Connections that a foreign process opens take nothing from the slot's own,
// whether it holds them or comes again and again.
func TestForeignConnectionsDoNotStarveASlot(t *testing.T) {
	for _, attack := range []string{"hold3000", "flood"} {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			j := startJob(t, 0, "a:1")
			j.size(1)
			i := startIntruder(t, j.slotPort("a"), os.Getuid(), attack)
			must.Eq(t, attack+" done", i.result(t))
			j.list("a:2")
			j.size(2)
		})
	}
}

// Refusals are one task event, however many there are.
func TestRefusalsAreReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	st, err := newStories(file, hclog.NewNullLogger())
	must.NoError(t, err)
	defer st.close()
	h := NewHost(HostOptions{Config: Config{Slots: 2}, ID: "h", Stories: st, Logger: hclog.NewNullLogger()})
	for local := range 2 {
		g := h.newGate(local)
		defer g.close()
		// The agent's own end of a connection to another process of the machine.
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must.NoError(t, err)
		defer func() { _ = l.Close() }()
		i := startIntruder(t, l.Addr().(*net.TCPAddr).Port, os.Getuid(), "hold2")
		must.Eq(t, "hold2 done", i.result(t))
		for range 2 {
			c, err := l.Accept()
			must.NoError(t, err)
			must.Error(t, g.Admit(c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()))
			must.NoError(t, c.Close())
		}
		must.Eq(t, 2, g.refused.Load())
		(<-h.todo)()
	}
	events, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Eq(t, 1, strings.Count(string(events), "\n"))
	must.StrContains(t, string(events), "slot 0: refused a connection to its rendezvous endpoint")
}
