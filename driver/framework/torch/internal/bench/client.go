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
)

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

// meet uses the store as gloo's connectFullMesh does: an entry is the host's name,
// an address, and 8 bytes for each rank.
func (c *client) meet(rank, size int) error {
	entry := make([]byte, 154+8*size)
	if err := c.send(text(text([]byte{set}, key(rank)), string(entry))); err != nil {
		return err
	}
	for other := range size {
		if other == rank {
			continue
		}
		for range 2 { // once by gloo, once by the store's own get
			if err := c.send(text(binary.LittleEndian.AppendUint64([]byte{wait}, 1), key(other))); err != nil {
				return err
			}
			if _, err := c.r.ReadByte(); err != nil {
				return err
			}
		}
		if err := c.send(text([]byte{get}, key(other))); err != nil {
			return err
		}
		var length uint64
		if err := binary.Read(c.r, binary.LittleEndian, &length); err != nil {
			return err
		}
		if length != uint64(len(entry)) {
			return fmt.Errorf("%s has %d bytes", key(other), length)
		}
		if _, err := io.CopyN(io.Discard, c.r, int64(length)); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) send(request []byte) error {
	c.sent++
	_, err := c.conn.Write(request)
	return err
}

func key(rank int) string { return "/kolo/1/control/0/" + strconv.Itoa(rank) }

// text appends a string, preceded by its length.
func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
