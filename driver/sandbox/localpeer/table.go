// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// pair identifies a connection by its two addresses, this end's first.
type pair struct{ local, remote netip.AddrPort }

// table reads all connections of this network namespace. Its cost grows with
// their number.
func table() (map[pair]Socket, error) {
	sockets := map[pair]Socket{}
	var errs []error
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/net/" + name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for s := range Table(f) {
			sockets[pair{s.Local, s.Remote}] = s
		}
		_ = f.Close()
	}
	if len(errs) == 2 { // a kernel without IPv6 has no tcp6
		return nil, fmt.Errorf("table of sockets: %w", errors.Join(errs...))
	}
	return sockets, nil
}

// Table reads a list in the form of /proc/net/tcp and tcp6. It skips lines of any
// other form.
func Table(r io.Reader) iter.Seq[Socket] {
	return func(yield func(Socket) bool) {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if s, ok := parseTableLine(lines.Text()); ok && !yield(s) {
				return
			}
		}
	}
}

func parseTableLine(line string) (Socket, bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return Socket{}, false
	}
	local, ok := parseAddress(f[1])
	remote, ok2 := parseAddress(f[2])
	state, err := strconv.ParseUint(f[3], 16, 8)
	uid, err2 := strconv.ParseUint(f[7], 10, 32)
	inode, err3 := strconv.ParseUint(f[9], 10, 64)
	if !ok || !ok2 || err != nil || err2 != nil || err3 != nil {
		return Socket{}, false
	}
	return Socket{Local: local, Remote: remote, State: uint8(state), UID: uint32(uid), Inode: inode}, true
}

// parseAddress reads "0100007F:1F90": the address as 32-bit words in the
// machine's byte order, the port in hex.
func parseAddress(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	b, err2 := hex.DecodeString(host)
	if !ok || err != nil || err2 != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), true
}
