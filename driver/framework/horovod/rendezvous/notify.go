// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// resMixed is Horovod's "hosts were added and removed". It is sent for every
// change: after the value for a pure removal, processes skip the state sync, which
// hangs rings with a newcomer and leaves samplers partitioned for the old size. All
// versions since 0.20 understand a plain number.
const resMixed = "\x03"

// acknowledgement is the class of the reply to a notice.
const acknowledgement = "AckResponse"

// maxReply bounds what is read from a process, in bytes. Replies are ~100.
const maxReply = 64 << 10

// maxExchange ends an exchange if the caller has set no deadline.
const maxExchange = time.Minute

// Notify notifies the process that the ring is about to change. The process reacts
// at its next commit, and only if timestamp is greater than the timestamp of the
// last notice that it reacted to. Only the notice to rank 0 counts.
func (t NotifyTarget) Notify(ctx context.Context, timestamp int64) error {
	return t.send(ctx, pickleProto+notice(timestamp))
}

// send sends the process a pickled request, and waits for its acknowledgement.
func (t NotifyTarget) send(ctx context.Context, request string) error {
	reply, err := t.roundTrip(ctx, []byte(request))
	if err != nil {
		return fmt.Errorf("notify process at port %d: %w", t.Port, err)
	}
	// The reply is never unpickled.
	if !bytes.Contains(reply, []byte(acknowledgement)) {
		return fmt.Errorf("notify process at port %d: reply is not a %s", t.Port, acknowledgement)
	}
	return nil
}

func (t NotifyTarget) roundTrip(ctx context.Context, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxExchange)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(t.Port)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Cancelling ends a read or write in progress.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	if _, err := conn.Write(frame(t.Key, request)); err != nil {
		return nil, orCause(ctx, err)
	}
	reply, err := readFrame(conn, t.Key)
	return reply, orCause(ctx, err)
}

// orCause prefers the context's error over the I/O error it caused.
func orCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// frame returns a message as Horovod's services exchange them: signature, length as
// the machine's own int32, body.
func frame(key, body []byte) []byte {
	out := make([]byte, 0, sha256.Size+4+len(body))
	out = append(out, sign(key, body)...)
	out = binary.NativeEndian.AppendUint32(out, uint32(len(body))) //nolint:gosec // our own requests are short
	return append(out, body...)
}

func readFrame(r io.Reader, key []byte) ([]byte, error) {
	header := make([]byte, sha256.Size+4)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, fmt.Errorf("no reply: %w", err)
	}
	n := binary.NativeEndian.Uint32(header[sha256.Size:])
	if n > maxReply {
		return nil, fmt.Errorf("reply of %d bytes, more than %d", n, maxReply)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("reply is cut short: %w", err)
	}
	if !hmac.Equal(header[:sha256.Size], sign(key, body)) {
		return nil, errors.New("reply is not signed with the process's key")
	}
	return body, nil
}

func sign(key, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(body)
	return h.Sum(nil)
}

// A notice is a pickle, of protocol 2, of a HostsUpdatedRequest, which is made
// without its constructor and then given its attributes. The timestamp stands in 8
// bytes between the two parts.
const (
	pickleProto = "\x80\x02"
	noticeHead  = "chorovod.runner.elastic.worker\nHostsUpdatedRequest\n" + ")\x81" + // GLOBAL, EMPTY_TUPLE, NEWOBJ
		"}(" + "X\x09\x00\x00\x00timestamp" + "\x8a\x08" // EMPTY_DICT, MARK, BINUNICODE, LONG1
	noticeTail = "X\x03\x00\x00\x00res" + "K" + resMixed + "ub." // BINUNICODE, BININT1, SETITEMS, BUILD, STOP
)

func notice(timestamp int64) string {
	head := binary.LittleEndian.AppendUint64([]byte(noticeHead), uint64(timestamp)) //nolint:gosec // LONG1 is in two's complement
	return string(head) + noticeTail
}
