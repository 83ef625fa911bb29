// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package intrudertest is a test fixture: a process of another tenant that attacks
// the rendezvous endpoint of a slot. The process runs the test binary in a session of its
// own, so that it does not belong to the test's processes.
package intrudertest

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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Main becomes the intruder if Start has started this test binary, and otherwise
// returns. TestMain calls it.
func Main() {
	if os.Getenv(mode) != "" {
		os.Exit(attack(os.Args[1])) //nolint:forbidigo // this is another process
	}
}

// mode is the variable that makes a test binary the intruder. Its value is the port
// of the rendezvous endpoint to attack.
const mode = "KOLO_TEST_INTRUDER"

// user is the variable with the user that the intruder runs as.
const user = "KOLO_TEST_INTRUDER_UID"

// detachedMark is the argument of the detached process.
const detachedMark = "detached"

// Intruder is an attacking process as the test sees it.
type Intruder struct {
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// Start runs attacks, separated by commas, as a user: read, forge, notify, delete,
// flood, and hold<n> for n connections. They end when the test does.
func Start(t *testing.T, port, uid int, attack string) *Intruder {
	t.Helper()
	cmd := exec.Command(os.Args[0], attack)
	cmd.Env = append(os.Environ(), mode+"="+strconv.Itoa(port), user+"="+strconv.Itoa(uid))
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	// Not StdoutPipe: Wait would close it, and the detached process writes to it.
	read, write, err := os.Pipe()
	must.NoError(t, err)
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	must.NoError(t, cmd.Start())
	must.NoError(t, write.Close())
	t.Cleanup(func() { _ = stdin.Close(); _, _ = io.Copy(io.Discard, read); _ = cmd.Wait() })
	return &Intruder{stdin: stdin, lines: bufio.NewScanner(read)}
}

// Result returns the next line of the attack's output.
func (i *Intruder) Result(t *testing.T) string {
	t.Helper()
	must.True(t, i.lines.Scan(), must.Sprint("the intruder ended"))
	return i.lines.Text()
}

func attack(attacks string) int {
	if len(os.Args) < 4 || os.Args[2] != detachedMark {
		cmd := exec.Command(os.Args[0], attacks, detachedMark, strconv.Itoa(os.Getpid()))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 1
		}
		return 0
	}
	if uid, _ := strconv.Atoi(os.Getenv(user)); uid != os.Getuid() && syscall.Setuid(uid) != nil {
		return 1
	}
	// While its first parent lives, it is a descendant of the test.
	for strconv.Itoa(os.Getppid()) == os.Args[3] {
		time.Sleep(time.Millisecond)
	}
	in := &intrusion{addr: "127.0.0.1:" + os.Getenv(mode)}
	for _, a := range strings.Split(attacks, ",") {
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
		return in.request("PUT", "/forged/0", bytes.Repeat([]byte{1}, 136))
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
			continue // already reset
		}
		if err != nil {
			return err.Error()
		}
		in.held = append(in.held, c)
	}
	return "done"
}

// flood connects repeatedly until the process ends.
func (in *intrusion) flood() {
	for {
		if c, err := net.Dial("tcp4", in.addr); err == nil {
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}
}

// request returns the status of the answer, or states that there is none.
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

// forgedTarget returns the body with which a process registers for notices: the
// pair ({"lo": [("127.0.0.1", port)]}, key), pickled.
func forgedTarget(port uint16) []byte {
	p := "\x80\x04}\x8c\x02lo]\x8c\x09127.0.0.1M" + string(binary.LittleEndian.AppendUint16(nil, port)) + "\x86asC\x03key\x86."
	return []byte(base64.StdEncoding.EncodeToString([]byte(p)))
}
