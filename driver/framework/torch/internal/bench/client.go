// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
)

// Commands of TCPStore, a part of those in package tcpstore.
const (
	validate, magic = 0, 0x3C85F7CE
	set, get, wait  = 1, 3, 6
	multiGet        = 10
)

// addressBytes is the size of an entry without anything about other ranks: the host's name
// and an address.
const addressBytes = 154

// client is a rank's connection.
type client struct {
	conn net.Conn
	r    *bufio.Reader
	sent int64 // requests
}

func dial(ctx context.Context, port int) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: bufio.NewReader(conn)}
	return c, c.send(binary.LittleEndian.AppendUint32([]byte{validate}, magic))
}

// meet uses the store as Gloo's createAndConnectAllPairs does: a rank stores its own entry
// and reads that of every other rank. With NCCL, only rank 0 stores a value, and all other
// ranks read it.
func (c *client) meet(rank, size int, w way) error {
	entry := make([]byte, addressBytes+w.perRank*size)
	if w.keys > 0 || rank == 0 {
		if err := c.send(text(text([]byte{set}, key(rank)), string(entry))); err != nil {
			return err
		}
	}
	switch {
	case w.keys > 1:
		return c.readLists(size, w.keys, len(entry))
	case w.keys == 0:
		return c.readOne(0, 1, len(entry))
	}
	for other := range size {
		if other != rank {
			if err := c.readOne(other, 2, len(entry)); err != nil { // Gloo waits, and so does the store's own get
				return err
			}
		}
	}
	return nil
}

// readOne waits several times for the entry of one rank, and reads it.
func (c *client) readOne(other, waits, length int) error {
	for range waits {
		if err := c.wait(other, other+1); err != nil {
			return err
		}
	}
	if err := c.send(text([]byte{get}, key(other))); err != nil {
		return err
	}
	if err := c.read(length); err != nil {
		return fmt.Errorf("%s: %w", key(other), err)
	}
	return nil
}

// readLists reads the entries of all ranks, including its own, several at once.
func (c *client) readLists(size, keys, length int) error {
	for first := 0; first < size; first += keys {
		end := min(first+keys, size)
		if err := c.wait(first, end); err != nil {
			return err
		}
		if err := c.send(list(multiGet, first, end)); err != nil {
			return err
		}
		for other := first; other < end; other++ {
			if err := c.read(length); err != nil {
				return fmt.Errorf("%s: %w", key(other), err)
			}
		}
	}
	return nil
}

// wait waits for the entries of the ranks from first up to end.
func (c *client) wait(first, end int) error {
	if err := c.send(list(wait, first, end)); err != nil {
		return err
	}
	_, err := c.r.ReadByte()
	return err
}

// read reads one value, of that length.
func (c *client) read(length int) error {
	var header [8]byte
	if _, err := io.ReadFull(c.r, header[:]); err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(header[:]); n != uint64(length) { //nolint:gosec // not negative
		return fmt.Errorf("an entry of %d bytes instead of %d", n, length)
	}
	_, err := c.r.Discard(length)
	return err
}

func (c *client) send(request []byte) error {
	c.sent++
	_, err := c.conn.Write(request)
	return err
}

func key(rank int) string { return "/kolo/1/control/0/" + strconv.Itoa(rank) }

// list returns a command for the keys of the ranks from first up to end.
func list(command byte, first, end int) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{command}, uint64(end-first)) //nolint:gosec // not negative
	for rank := first; rank < end; rank++ {
		b = text(b, key(rank))
	}
	return b
}

// text appends a string, preceded by its length.
func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
