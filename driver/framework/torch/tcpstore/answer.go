// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore

import (
	"bufio"
	"encoding/binary"
	"net"
	"time"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

// Answers of commands that wait, and of cmdCheck.
const (
	stopWaiting  = 0
	waitCanceled = 1
	ready        = 0
	notReady     = 1
)

// answerBuffer is how much of an answer is sent at once. In large groups, the answer to
// cmdMultiGet has a megabyte in small values.
const answerBuffer = 64 << 10

// answerWriter writes answers. It gives up on a client that does not read for a
// while.
type answerWriter struct {
	conn  net.Conn
	w     *bufio.Writer
	limit time.Duration
}

func newAnswerWriter(conn net.Conn, limit time.Duration) *answerWriter {
	a := &answerWriter{conn: conn, limit: limit}
	a.w = bufio.NewWriterSize(a, answerBuffer)
	return a
}

// Write sends a part of an answer.
func (a *answerWriter) Write(b []byte) (int, error) {
	if err := a.conn.SetWriteDeadline(time.Now().Add(a.limit)); err != nil {
		return 0, err
	}
	return a.conn.Write(b)
}

func (a *answerWriter) byte(b byte) { _ = a.w.WriteByte(b) } // Flush returns its error, as that of all below

func (a *answerWriter) int64(n int64) {
	_, _ = a.w.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) //nolint:gosec // two's complement
}

func (a *answerWriter) bytes(b []byte) {
	a.int64(int64(len(b)))
	_, _ = a.w.Write(b)
}

func (a *answerWriter) flush() error { return a.w.Flush() }

// answer writes the answer to a command.
func (a *answerWriter) answer(c command, res store.Result) error {
	switch c {
	case cmdCheck:
		if res.Number > 0 {
			a.byte(ready)
		} else {
			a.byte(notReady)
		}
	case cmdWait, cmdBarrier:
		a.byte(stopWaiting)
	case cmdGet, cmdCompareSet:
		a.bytes(res.Value)
	case cmdMultiGet:
		for _, v := range res.Values {
			a.bytes(v)
		}
	case cmdAdd, cmdNumKeys, cmdDelete, cmdQueueLen:
		a.int64(res.Number)
	case cmdQueuePop:
		if a.int64(res.Number); res.Number > 0 {
			a.bytes(res.Value)
		}
	case cmdListKeys:
		a.int64(int64(len(res.Keys)))
		for _, k := range res.Keys {
			a.bytes([]byte(k))
		}
	default: // cmdSet, cmdAppend, cmdMultiSet, cmdQueuePush
		return nil
	}
	return a.flush()
}

// ping sends back what the client sent.
func (a *answerWriter) ping(nonce uint32) error {
	_, _ = a.w.Write(binary.LittleEndian.AppendUint32(nil, nonce))
	return a.flush()
}
