// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store_test

import (
	"encoding/binary"
	"math"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// forgedHave claims what a host has applied.
func forgedHave(applied, own uint64) wire.Put {
	return wire.Put{Scope: "have", Key: strconv.FormatUint(applied, 10), Value: binary.AppendUvarint(nil, own), Size: 2}
}

// forgedLog claims that so many entries lie before an empty end of the log.
func forgedLog(before uint64) wire.Put {
	b := binary.AppendUvarint(nil, before+1)
	b = binary.AppendUvarint(b, before)
	return wire.Put{Scope: "log", Value: binary.AppendUvarint(b, 0), Size: 2}
}

// A host that lies about the log neither ends the leader's agent, which would end each
// leader of the job in turn, nor takes the log from the other hosts.
func TestSequencer_ForgedLog(t *testing.T) {
	for name, takesOver := range map[string]bool{"in a session": false, "when a leader takes over": true} {
		for _, before := range []uint64{1, 100, math.MaxInt64, math.MaxUint64 - 1} {
			t.Run(name+strconv.FormatUint(before, 10), func(t *testing.T) {
				w := newWorld(1, 1, 1)
				if takesOver {
					w.sequencer.Expect(w.hosts)
				}
				w.join("h0")
				_, err := w.sequencer.Restore("h0", w.replicas["h0"].Snapshot())
				must.NoError(t, err)
				for _, have := range []uint64{0, before, math.MaxInt64} {
					_, _ = w.sequencer.Submit("h1", []wire.Put{forgedHave(min(have, math.MaxInt64), 0), forgedLog(before)})
				}
				_, err = w.sequencer.Restore("h0", w.replicas["h0"].Snapshot())
				must.NoError(t, err)
			})
		}
	}
}
