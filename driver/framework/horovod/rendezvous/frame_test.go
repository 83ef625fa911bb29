// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/shoenig/test/must"
)

// FuzzReply: of any answer to a notice, the agent accepts only a signed one, and
// keeps no more bytes than the bound.
func FuzzReply(f *testing.F) {
	key := []byte("key")
	f.Add([]byte{})
	f.Add(frame(key, []byte("AckResponse")))
	f.Add(frame([]byte("another"), []byte("AckResponse")))
	f.Add(frame(key, []byte("AckResponse"))[:40])
	f.Add(binary.NativeEndian.AppendUint32(make([]byte, 32), 1<<31))
	f.Fuzz(func(t *testing.T, reply []byte) {
		body, err := readFrame(bytes.NewReader(reply), key)
		if err != nil {
			must.SliceEmpty(t, body)
			return
		}
		must.LessEq(t, maxReply, len(body))
		must.True(t, bytes.HasPrefix(reply, frame(key, body)))
	})
}

func TestIsBlobKey(t *testing.T) {
	for key, want := range map[string]bool{
		"0": true, "7": true, "10": true, "": false, "01": false, "00": false, "-1": false, "+1": false, "1a": false, " 1": false, "rank_0": false,
	} {
		must.Eq(t, want, isBlobKey(key), must.Sprint(key))
	}
}
