// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// crowdOf makes a caller hold that many connections to itself.
const crowdOf = "KOLO_TEST_CROWD"

// BenchmarkAdmit measures what one accepted connection costs, by the ways in
// which its peer may be found, with 10,000 sockets in the network namespace and
// 500 open files in the peer's process. "connect" is the connection itself,
// without any look-up:
//
//	go test -run '^$' -bench Admit ./driver/localpeer
func BenchmarkAdmit(b *testing.B) {
	crowd(b)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(b, err)
	defer func() { _ = l.Close() }()
	for range 500 {
		f, err := os.Open(os.DevNull)
		must.NoError(b, err)
		defer func() { _ = f.Close() }()
	}
	client, err := net.Dial("tcp4", l.Addr().String())
	must.NoError(b, err)
	defer func() { _ = client.Close() }()
	server, err := l.Accept()
	must.NoError(b, err)
	defer func() { _ = server.Close() }()
	local, remote := client.RemoteAddr().(*net.TCPAddr).AddrPort(), client.LocalAddr().(*net.TCPAddr).AddrPort()
	own, err := new(kernel).socket(local, remote)
	must.NoError(b, err)

	admit := func(task *Task, forget bool) func(*testing.B) {
		return func(b *testing.B) {
			gate := task.NewGate()
			defer gate.Close()
			for b.Loop() {
				if forget {
					gate.remember(nil)
				}
				must.NoError(b, gate.Admit(local, remote))
			}
		}
	}
	tabled := NewTask(0, hclog.NewNullLogger())
	tabled.once.Do(func() { tabled.tabled = true })
	b.Run("connect", func(b *testing.B) {
		for b.Loop() {
			c, err := net.Dial("tcp4", l.Addr().String())
			must.NoError(b, err)
			s, err := l.Accept()
			must.NoError(b, err)
			must.NoError(b, s.(*net.TCPConn).SetLinger(0))
			must.NoError(b, s.Close())
			must.NoError(b, c.Close())
		}
	})
	b.Run("cgroup", admit(NewTask(own.Cgroup, hclog.NewNullLogger()), false))
	b.Run("process, remembered", admit(NewTask(0, hclog.NewNullLogger()), false))
	b.Run("process, scan", admit(NewTask(0, hclog.NewNullLogger()), true))
	b.Run("whole table", admit(tabled, false))
}

// crowd fills the network namespace with 10,000 sockets of a process that is
// not of the test's task.
func crowd(b *testing.B) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), callerMode+"=daemon", crowdOf+"=5000")
	stdin, err := cmd.StdinPipe()
	must.NoError(b, err)
	read, write, err := os.Pipe()
	must.NoError(b, err)
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	must.NoError(b, cmd.Start())
	must.NoError(b, write.Close())
	b.Cleanup(func() { _ = stdin.Close(); _, _ = io.Copy(io.Discard, read); _ = cmd.Wait() })
	_, err = bufio.NewReader(read).ReadString('\n')
	must.NoError(b, err)
}

// crowdMain connects n times to itself.
func crowdMain(n int) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	ends := make([]net.Conn, 0, 2*n)
	for range n {
		client, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return 1
		}
		server, err := l.Accept()
		if err != nil {
			return 1
		}
		ends = append(ends, client, server)
	}
	fmt.Println("connected")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, c := range ends {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	return 0
}
