// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// crowdOf makes a caller hold that many connections to itself.
const crowdOf = "KOLO_TEST_CROWD"

// BenchmarkAdmit measures what one accepted connection costs, by the ways in
// which its peer may be found, with 10,000 sockets in the network namespace and
// 500 open files in the peer's process. "connect" is the connection itself,
// without any look-up:
//
//	go test -run '^$' -bench Admit ./driver/sandbox/localpeer
func BenchmarkAdmit(b *testing.B) {
	crowd(b, 10000)
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

// BenchmarkConnections measures a look at the connections of a ring, by the list that
// the kernel dumps and by its table, with so many sockets in the network namespace:
//
//	ulimit -n 40000; go test -run '^$' -bench Connections -benchtime 100x ./driver/sandbox/localpeer
func BenchmarkConnections(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(b, err)
	defer func() { _ = l.Close() }()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	for range 8 {
		client, err := net.Dial("tcp4", at.String())
		must.NoError(b, err)
		defer func() { _ = client.Close() }()
		server, err := l.Accept()
		must.NoError(b, err)
		defer func() { _ = server.Close() }()
	}
	own, err := new(kernel).ownListener()
	must.NoError(b, err)
	for _, sockets := range []int{50, 5000, 30000} {
		b.Run(strconv.Itoa(sockets)+" sockets", func(b *testing.B) {
			crowd(b, sockets)
			look := func(task *Task) func(*testing.B) {
				return func(b *testing.B) {
					begin := processorTime(b)
					defer func() { b.ReportMetric(float64(processorTime(b)-begin)/float64(b.N), "cpu-ns/op") }()
					for b.Loop() {
						found, err := task.Connections(map[netip.AddrPort]bool{at: true})
						must.NoError(b, err)
						must.SliceLen(b, 16, found)
					}
				}
			}
			tabled := NewTask(0, hclog.NewNullLogger())
			tabled.once.Do(func() { tabled.tabled = true })
			b.Run("dump, cgroup", look(NewTask(own.Cgroup, hclog.NewNullLogger())))
			b.Run("dump, processes", look(NewTask(0, hclog.NewNullLogger())))
			b.Run("table, processes", look(tabled))
		})
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// crowd fills the network namespace with sockets of a process that is not of the
// test's task.
func crowd(b *testing.B, sockets int) {
	b.Helper()
	const most = 10000 // of one process, which may not open many more files
	if sockets > most {
		crowd(b, sockets-most)
		sockets = most
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), callerMode+"=daemon", crowdOf+"="+strconv.Itoa(sockets/2))
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
