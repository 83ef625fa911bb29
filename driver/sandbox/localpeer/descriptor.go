// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// descriptor is an open file of a process.
type descriptor struct{ pid, number int }

// descriptors is the directory of a process's open files. It stays that of the
// process after the process ends, even if its number is reused.
type descriptors struct {
	dir *os.File
	fd  int // the descriptor of dir
}

func openDescriptors(pid int) (descriptors, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return descriptors{}, err
	}
	return descriptors{dir, int(dir.Fd())}, nil
}

func (d descriptors) close() { _ = d.dir.Close() }

// socket returns the inode of the socket at a descriptor number, 0 if it is not a
// socket.
func (d descriptors) socket(number string) uint64 {
	var link [64]byte
	n, err := unix.Readlinkat(d.fd, number, link[:])
	if err != nil {
		return 0
	}
	return socketLink(link[:n])
}

// has reports whether the descriptor number is the socket with the inode.
func (d descriptors) has(number int, inode uint64) bool {
	return d.socket(strconv.Itoa(number)) == inode
}

// socketLink returns 4711 for "socket:[4711]", 0 for any other text.
func socketLink(link []byte) uint64 {
	number, ok := bytes.CutPrefix(link, []byte("socket:["))
	if !ok {
		return 0
	}
	inode, err := strconv.ParseUint(string(bytes.TrimSuffix(number, []byte("]"))), 10, 64)
	if err != nil {
		return 0
	}
	return inode
}

// sockets calls each for every socket of the process.
func (d descriptors) sockets(each func(number int, inode uint64)) error {
	names, err := d.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		inode := d.socket(name)
		number, err := strconv.Atoi(name)
		if inode != 0 && err == nil {
			each(number, inode)
		}
	}
	return nil
}
