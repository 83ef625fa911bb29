// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
)

// peerMode makes this test binary a process that connects to an address, and reports when
// it is connected and when the connection ends.
const peerMode = "KOLO_TEST_PEER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(peerMode); addr != "" {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			os.Exit(1) //nolint:forbidigo // this is another process
		}
		os.Stdout.WriteString("connected\n")
		_, err = c.Read(make([]byte, 1))
		if errors.Is(err, io.EOF) {
			os.Stdout.WriteString("closed\n")
		}
		_, _ = io.ReadAll(os.Stdin)
		os.Exit(0) //nolint:forbidigo // this is another process
	}
	intrudertest.Main()
	m.Run()
}

func TestShutdownSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	addr := netip.MustParseAddrPort(l.Addr().String())

	// A shell around the process, as around many scripts.
	cmd := exec.Command("sh", "-c", os.Args[0]+"; exit 0")
	cmd.Env = append(os.Environ(), peerMode+"="+addr.String())
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	defer func() { _ = stdin.Close(); _ = cmd.Wait() }()
	conn, err := l.Accept()
	must.NoError(t, err)
	defer func() { _ = conn.Close() }()
	lines := bufio.NewScanner(stdout)
	must.True(t, lines.Scan())

	other := netip.AddrPortFrom(addr.Addr(), addr.Port()^1)
	n, err := shutdownSockets(cmd.Process.Pid, map[netip.AddrPort]bool{other: true})
	must.NoError(t, err)
	must.Eq(t, 0, n, must.Sprint("a connection of another address"))

	n, err = shutdownSockets(cmd.Process.Pid, map[netip.AddrPort]bool{addr: true})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skipf("this kernel does not let us: %v", err)
	}
	must.NoError(t, err)
	must.Eq(t, 1, n)
	must.True(t, lines.Scan())
	must.Eq(t, "closed", lines.Text())
	_, err = conn.Read(make([]byte, 1))
	must.ErrorIs(t, err, io.EOF)
}

func TestMatchSockets(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 101 1
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 102 1
   2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 103 1
   3: 0200007F:1F90 0100007F:C351 01 00000000:00000000 00:00000000 00000000     0        0 104 1
   4: nonsense
`
	inodes := map[string]bool{}
	matchSockets(strings.NewReader(table), map[netip.AddrPort]bool{netip.MustParseAddrPort("127.0.0.1:8080"): true}, inodes)
	must.MapEq(t, map[string]bool{"101": true, "102": true}, inodes, must.Sprint("both ends, not the listener, not another address"))
}

func FuzzMatchSockets(f *testing.F) {
	f.Add("0: 0100007F:1F90 0100007F:C350 01 0 0 0 0 0 0 101")
	f.Fuzz(func(_ *testing.T, table string) {
		matchSockets(strings.NewReader(table), map[netip.AddrPort]bool{}, map[string]bool{})
	})
}
