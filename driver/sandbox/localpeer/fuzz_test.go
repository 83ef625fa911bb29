// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// FuzzTable: a process chooses the addresses of its sockets, and so the content of
// the kernel's table.
func FuzzTable(f *testing.F) {
	f.Add("0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 101 1")
	f.Add("1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:C350 06 0 0 0 65534 0 0 1")
	f.Add("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n:: : : :\n\xff")
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(string(text[:min(len(text), 2000)]))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for s := range Table(strings.NewReader(text)) {
			n++
			must.True(t, s.Local.IsValid() && s.Remote.IsValid())
			must.False(t, s.Local.Addr().Is4In6() || s.Remote.Addr().Is4In6())
		}
		must.LessEq(t, strings.Count(text, "\n")+1, n)
	})
}

// FuzzParseStat: a process chooses its command's name, which stands in the middle
// of the line and may contain brackets, spaces and newlines.
func FuzzParseStat(f *testing.F) {
	const rest = " S 17 4711 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 99 1 1"
	for _, name := range []string{"python", "a) S 1 1 1 (", "((((", "))))", "a\nb", "", "\xff"} {
		f.Add("4711 ("+name+")"+rest, name)
	}
	f.Fuzz(func(t *testing.T, line, name string) {
		_, _ = parseStat([]byte(line))
		p, ok := parseStat([]byte("4711 (" + name + ")" + rest))
		must.True(t, ok)
		must.Eq(t, process{parent: 17, session: 4242, started: 99}, p)
	})
}

// FuzzParseDiag: a truncated or garbled answer is an error.
func FuzzParseDiag(f *testing.F) {
	request := diagRequest(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2"))
	message := make([]byte, unix.SizeofNlMsghdr+lenDiagMessage+unix.SizeofRtAttr+8)
	message[4] = unix.SOCK_DIAG_BY_FAMILY
	message[unix.SizeofNlMsghdr] = unix.AF_INET6
	message[unix.SizeofNlMsghdr+lenDiagMessage] = unix.SizeofRtAttr + 8
	message[unix.SizeofNlMsghdr+lenDiagMessage+2] = attrCgroup
	failure := []byte("\x24\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff")
	for _, b := range [][]byte{nil, request, message, failure, message[:60]} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		s, err := parseDiag(answer)
		if err != nil {
			must.Eq(t, Socket{}, s)
		}
	})
}

// FuzzSocketLink: a process chooses the names of the files that it opens.
func FuzzSocketLink(f *testing.F) {
	for _, link := range []string{"socket:[4711]", "socket:[", "socket:[-1]", "/tmp/socket:[4711]", "socket:[99999999999999999999]", "pipe:[3]", ""} {
		f.Add(link)
	}
	f.Fuzz(func(t *testing.T, link string) {
		if socketLink([]byte(link)) != 0 {
			must.StrHasPrefix(t, "socket:[", link)
		}
	})
}
