// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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
	"golang.org/x/sys/unix"
)

// Variables that make this test binary another process.
const (
	agentMode  = "KOLO_TEST_AGENT"  // the ID of the task's cgroup
	callerMode = "KOLO_TEST_CALLER" // how the caller is related to its parent
	addrOf     = "KOLO_TEST_ADDR"
	userOf     = "KOLO_TEST_UID"
)

func TestMain(m *testing.M) {
	if cgroup := os.Getenv(agentMode); cgroup != "" {
		os.Exit(agentMain(cgroup)) //nolint:forbidigo // this is another process
	}
	if kind := os.Getenv(callerMode); kind != "" {
		os.Exit(callerMain(kind)) //nolint:forbidigo // this is another process
	}
	m.Run()
}

// agentMain listens, and reports of each connection whether it is admitted. A
// line on its standard input makes it start a caller of that kind.
func agentMain(cgroup string) int {
	id, _ := strconv.ParseUint(cgroup, 10, 64)
	if uid := os.Getenv(userOf); uid != "" {
		n, _ := strconv.Atoi(uid)
		if syscall.Setgid(n) != nil || syscall.Setuid(n) != nil {
			return 1
		}
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println(l.Addr())
	gate := NewTask(id, hclog.New(&hclog.LoggerOptions{Output: os.Stderr})).NewGate()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if err := admitConn(gate, c); err != nil {
				fmt.Println("refused:", err)
			} else {
				fmt.Println("admitted")
			}
			_ = c.Close()
		}
	}()
	kinds := bufio.NewScanner(os.Stdin)
	for kinds.Scan() {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{callerMode + "=" + kinds.Text(), addrOf + "=" + l.Addr().String()}
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Println(err)
		}
	}
	return 0
}

func admitConn(g *Gate, c net.Conn) error {
	return g.Admit(c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort())
}

// callerMain connects, as a child of the agent or as an orphan of such a child.
func callerMain(kind string) int {
	if kind == "orphan" || kind == "daemon" {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), callerMode+"="+strconv.Itoa(os.Getpid()))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: kind == "daemon"}
		if cmd.Start() != nil {
			return 1
		}
		return 0
	}
	for strconv.Itoa(os.Getppid()) == kind { // until the parent has ended
		time.Sleep(time.Millisecond)
	}
	if n, err := strconv.Atoi(os.Getenv(crowdOf)); err == nil {
		return crowdMain(n)
	}
	if kind == "hidden" && unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) != nil {
		return 1
	}
	if kind == "mapped" { // an IPv6 socket for an IPv4 address
		return dialMapped(os.Getenv(addrOf))
	}
	c, err := net.Dial("tcp4", os.Getenv(addrOf))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, c)
	return 0
}

func dialMapped(addr string) int {
	to := netip.MustParseAddrPort(addr)
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM, 0)
	if err != nil {
		return 1
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = syscall.Read(fd, make([]byte, 1))
	return 0
}

// agent is an agent's process as the test sees it.
type agent struct {
	t     *testing.T
	addr  string
	stdin io.Writer
	lines *bufio.Scanner
}

func startAgent(t *testing.T, cgroup uint64, attr *syscall.SysProcAttr, env ...string) *agent {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), agentMode+"="+strconv.FormatUint(cgroup, 10)), env...)
	cmd.SysProcAttr, cmd.Stderr = attr, os.Stderr
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	a := &agent{t: t, stdin: stdin, lines: bufio.NewScanner(stdout)}
	a.addr = a.line()
	return a
}

func (a *agent) line() string {
	a.t.Helper()
	must.True(a.t, a.lines.Scan(), must.Sprint("the agent ended"))
	return a.lines.Text()
}

// call makes the agent start a caller, and returns the result of its call.
func (a *agent) call(kind string) string {
	a.t.Helper()
	_, err := io.WriteString(a.stdin, kind+"\n")
	must.NoError(a.t, err)
	return a.line()
}

// callFromOutside calls as the test, which is no process of the agent's task.
func (a *agent) callFromOutside() string {
	a.t.Helper()
	c, err := net.Dial("tcp4", a.addr)
	must.NoError(a.t, err)
	defer func() { _ = c.Close() }()
	return a.line()
}

// Without a cgroup of its own, an agent's task consists of the processes that it
// started and, if the agent leads a session, of the session.
func TestTaskByProcess(t *testing.T) {
	for name, c := range map[string]struct {
		session bool
		env     []string
		root    bool
	}{
		"leads a session":          {session: true},
		"in a user's session":      {},
		"as a user without powers": {session: true, env: []string{userOf + "=65534"}, root: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Getuid() != 0 {
				t.Skip("needs root, to become another user")
			}
			a := startAgent(t, 0, &syscall.SysProcAttr{Setsid: c.session}, c.env...)
			must.Eq(t, "admitted", a.call("child"))
			must.Eq(t, "admitted", a.call("mapped"), must.Sprint("IPv4 by an IPv6 socket"))
			must.StrHasPrefix(t, "refused: peer 127.0.0.1:", a.callFromOutside())
			must.StrContains(t, a.call("daemon"), "no process of the task holds it")
			if orphan := a.call("orphan"); c.session {
				must.Eq(t, "admitted", orphan)
			} else {
				must.StrContains(t, orphan, "no process of the task holds it")
			}
			if c.root {
				must.StrContains(t, a.call("hidden"), "cannot be read", must.Sprint("what cannot be found out admits no one"))
			}
			must.Eq(t, "admitted", a.call("child"))
		})
	}
}

// With a cgroup, the task consists of the cgroup's processes, no matter who their
// parents are.
func TestTaskByCgroup(t *testing.T) {
	dir, err := os.MkdirTemp(unifiedCgroup(t), "kolo-test-")
	if err != nil {
		t.Skipf("needs a writable cgroup v2: %v", err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			err := os.Remove(dir)
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) { // callers may be about to exit
				must.NoError(t, err)
				return
			}
		}
	})
	fd, err := os.Open(dir)
	must.NoError(t, err)
	defer func() { _ = fd.Close() }()
	var info syscall.Stat_t
	must.NoError(t, syscall.Stat(dir, &info))

	a := startAgent(t, info.Ino, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd.Fd())})
	for _, kind := range []string{"child", "mapped", "orphan", "daemon"} {
		must.Eq(t, "admitted", a.call(kind), must.Sprint(kind))
	}
	must.StrContains(t, a.callFromOutside(), fmt.Sprintf("it is not in the task's cgroup %d", info.Ino))

	// A cgroup that is not the agent's own proves nothing.
	b := startAgent(t, info.Ino, &syscall.SysProcAttr{})
	must.Eq(t, "admitted", b.call("child"))
	must.StrContains(t, b.callFromOutside(), "no process of the task holds it")
}

// unifiedCgroup returns where this machine has its cgroup version 2.
func unifiedCgroup(t *testing.T) string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir
		}
	}
	t.Skip("no cgroup v2")
	return ""
}

// A peer is found in the kernel's whole table as well as by an exact look-up.
func TestTableAndQuestionAgree(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp4", l.Addr().String())
	must.NoError(t, err)
	defer func() { _ = client.Close() }()
	local, remote := client.LocalAddr().(*net.TCPAddr).AddrPort(), client.RemoteAddr().(*net.TCPAddr).AddrPort()

	asked, err := new(kernel).socket(local, remote)
	must.NoError(t, err)
	must.Eq(t, Established, asked.State)
	must.Eq(t, uint32(os.Getuid()), asked.UID)
	sockets, err := table()
	must.NoError(t, err)
	asked.Cgroup = 0
	must.Eq(t, asked, sockets[pair{local, remote}])
	must.StrHasPrefix(t, strconv.Itoa(os.Getpid())+" (", Holder(asked.Inode))

	task := NewTask(0, hclog.NewNullLogger())
	task.once.Do(func() { task.tabled = true })
	gate := task.NewGate()
	defer gate.Close()
	must.NoError(t, gate.Admit(remote, local))

	none := netip.AddrPortFrom(local.Addr(), 1)
	_, err = new(kernel).socket(none, remote)
	must.ErrorIs(t, err, errNoSocket)
	must.ErrorIs(t, gate.Admit(remote, none), ErrGone)
}

// The look-up of a closed connection does not find the process that listens at the
// same port.
func TestAListenerIsNoPeer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, err = new(kernel).socket(l.Addr().(*net.TCPAddr).AddrPort(), netip.MustParseAddrPort("127.0.0.1:9"))
	must.ErrorIs(t, err, errNoSocket)
}

// A gate finds its peers again without a scan, and forgets processes that have
// ended.
func TestGateRemembers(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	gate := NewTask(0, hclog.NewNullLogger()).NewGate()
	defer gate.Close()
	dial := func() (inode uint64, end func()) {
		client, err := net.Dial("tcp4", l.Addr().String())
		must.NoError(t, err)
		server, err := l.Accept()
		must.NoError(t, err)
		must.NoError(t, admitConn(gate, server))
		s, err := new(kernel).socket(server.RemoteAddr().(*net.TCPAddr).AddrPort(), server.LocalAddr().(*net.TCPAddr).AddrPort())
		must.NoError(t, err)
		return s.Inode, func() { _ = client.Close(); _ = server.Close() }
	}
	inode, end := dial()
	must.True(t, gate.recall(inode))
	end()
	must.False(t, gate.recall(inode))
	inode, end = dial()
	must.True(t, gate.recall(inode), must.Sprint("the next one has nearly the same number"))
	end()

	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	files, err := openDescriptors(cmd.Process.Pid)
	must.NoError(t, err)
	gate.remember(&held{files: files})
	must.NoError(t, stdin.Close())
	must.NoError(t, cmd.Wait())
	must.False(t, gate.recall(1))
}

// A first caller that resets its connection does not make the task use the slow
// look-up permanently.
func TestTheFirstPeerMayBeGone(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp4", l.Addr().String())
	must.NoError(t, err)
	server, err := l.Accept()
	must.NoError(t, err)
	defer func() { _ = server.Close() }()
	must.NoError(t, client.(*net.TCPConn).SetLinger(0))
	must.NoError(t, client.Close())
	_, err = server.Read(make([]byte, 1))
	must.ErrorIs(t, err, syscall.ECONNRESET)

	task := NewTask(0, hclog.NewNullLogger())
	gate := task.NewGate()
	defer gate.Close()
	must.ErrorIs(t, admitConn(gate, server), ErrGone)
	must.False(t, task.tabled)
}

func TestAdmitReportsRefusals(t *testing.T) {
	err := error(&RefusedError{Peer: Socket{Local: netip.MustParseAddrPort("127.0.0.1:5"), UID: 65534}, Reason: "no"})
	var refused *RefusedError
	must.True(t, errors.As(err, &refused))
	must.EqError(t, err, "peer 127.0.0.1:5 (user 65534, cgroup 0): no")
	must.False(t, strings.Contains(Holder(0), "("))
}

// TestAClosedPeerIsGone has a peer that has closed its end: its address may belong
// to another process at the next look-up.
func TestAClosedPeerIsGone(t *testing.T) {
	for name, tabled := range map[string]bool{"exact question": false, "table": true} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp4", "127.0.0.1:0")
			must.NoError(t, err)
			defer func() { _ = ln.Close() }()
			peer, err := net.Dial("tcp4", ln.Addr().String())
			must.NoError(t, err)
			defer func() { _ = peer.Close() }()
			conn, err := ln.Accept()
			must.NoError(t, err)
			defer func() { _ = conn.Close() }()
			task := NewTask(0, hclog.NewNullLogger())
			task.once.Do(func() { task.tabled = tabled })
			gate := task.NewGate()
			defer gate.Close()
			must.NoError(t, admitConn(gate, conn))
			must.NoError(t, peer.(*net.TCPConn).CloseWrite())
			must.ErrorIs(t, admitConn(gate, conn), ErrGone)
		})
	}
}
