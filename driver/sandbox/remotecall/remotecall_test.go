// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && amd64

package remotecall

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// childMode makes this test binary a process that has connections, and that meanwhile does
// what the mode names.
const childMode = "KOLO_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode)) //nolint:forbidigo // this is another process
	}
	m.Run()
}

// child connects to the addresses that it is given, each by the next descriptor from 50 on,
// and then serves its mode until standard input closes. It ends with 0 if its first thread
// noticed nothing.
func child(mode string) int {
	for i, address := range os.Args[1:] {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return 2
		}
		f, err := c.(*net.TCPConn).File()
		if err != nil || unix.Dup2(int(f.Fd()), 50+i) != nil {
			return 2
		}
	}
	hups := make(chan os.Signal, 10)
	signal.Notify(hups, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(ended) }()
	fmt.Println("ready")
	n := uint64(0)
	for {
		select {
		case <-ended:
			return 0
		case <-hups:
			fmt.Println("hup")
		case <-time.After(time.Duration(len(mode)) * time.Millisecond): // whatever it does
		}
		if mode == "busy" {
			for range 10_000_000 {
				n = n*31 + 7
			}
		}
	}
}

// shell runs a shell script; its builtins make the system calls that a thread is stopped
// in.
var shells = map[string]string{
	"sleeping":  `exec 50<>/dev/tcp/$0/$1; echo ready; read -t 600 line; echo "$? $line"`,
	"computing": `exec 50<>/dev/tcp/$0/$1; echo ready; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; read line; echo "$? $line"`,
	"waiting":   `exec 50<>/dev/tcp/$0/$1; sleep 600 & echo $! ; echo ready; read line; kill %1; wait; echo "0 $line"`,
}

func listen(t *testing.T) *net.TCPListener {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

func skipUnlessPossible(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skip(err)
	}
}

// A process continues with any activity that it was in, and notices only that its peer
// closed the connection.
func TestShutdown(t *testing.T) {
	skipUnlessPossible(t)
	for name, script := range shells {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			host, port, err := net.SplitHostPort(l.Addr().String())
			must.NoError(t, err)
			cmd := exec.Command("bash", "-c", script, host, port)
			stdin, err := cmd.StdinPipe()
			must.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			must.NoError(t, err)
			cmd.Stderr = os.Stderr
			must.NoError(t, cmd.Start())
			conn, err := l.Accept()
			must.NoError(t, err)
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && lines.Text() != "ready" {
			}
			for range 20 { // in different places of what it does
				_, err = Shutdown(cmd.Process.Pid, nil)
				must.NoError(t, err)
			}
			n, err := Shutdown(cmd.Process.Pid, []int{50, 51, 1})
			must.NoError(t, err)
			must.Eq(t, 1, n, must.Sprint("51 is no descriptor, 1 is no socket"))
			_, err = conn.Read(make([]byte, 1))
			must.ErrorIs(t, err, io.EOF)

			_, err = io.WriteString(stdin, "on\n")
			must.NoError(t, err)
			must.True(t, lines.Scan())
			must.Eq(t, "0 on", strings.TrimSpace(lines.Text()))
			must.NoError(t, cmd.Wait())
		})
	}
}

// A program has many threads, and signals arrive at any time. None of them is lost.
func TestShutdown_Threads(t *testing.T) {
	skipUnlessPossible(t)
	for _, mode := range []string{"idle", "busy"} {
		t.Run(mode, func(t *testing.T) {
			first, second := listen(t), listen(t)
			cmd := exec.Command(os.Args[0], first.Addr().String(), second.Addr().String())
			cmd.Env = append(os.Environ(), childMode+"="+mode)
			stdin, err := cmd.StdinPipe()
			must.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			must.NoError(t, err)
			cmd.Stderr = os.Stderr
			must.NoError(t, cmd.Start())
			kept, err := first.Accept()
			must.NoError(t, err)
			cut, err := second.Accept()
			must.NoError(t, err)
			lines := bufio.NewScanner(stdout)
			must.True(t, lines.Scan())

			for range 20 {
				must.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
				_, err := Shutdown(cmd.Process.Pid, nil)
				must.NoError(t, err)
				must.True(t, lines.Scan())
				must.Eq(t, "hup", lines.Text())
			}
			n, err := Shutdown(cmd.Process.Pid, []int{51})
			must.NoError(t, err)
			must.Eq(t, 1, n)
			_, err = cut.Read(make([]byte, 1))
			must.ErrorIs(t, err, io.EOF)
			must.NoError(t, kept.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
			_, err = kept.Read(make([]byte, 1))
			must.ErrorIs(t, err, os.ErrDeadlineExceeded)

			must.NoError(t, stdin.Close())
			must.NoError(t, cmd.Wait())
		})
	}
}

// A process that has ended, or ends meanwhile, is left for its parent to reap.
func TestShutdown_Ended(t *testing.T) {
	skipUnlessPossible(t)
	cmd := exec.Command("sleep", "600")
	must.NoError(t, cmd.Start())
	must.NoError(t, cmd.Process.Kill())
	must.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	_, err := Shutdown(cmd.Process.Pid, []int{1})
	must.Error(t, err)
	_ = cmd.Wait()
	must.Eq(t, unix.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	_, err = Shutdown(cmd.Process.Pid, []int{1})
	must.ErrorIs(t, err, unix.ESRCH)
}
