// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
)

// retire.py is what a process does that is to end.
//
//go:embed retire.py
var retireProgram string

// Alone is the place of a process in a ring of its own.
var Alone = Assignment{Size: 1, LocalSize: 1, CrossSize: 1}

// Retire makes the process, which waits in Horovod's init for its next rank, end as by
// sys.exit() as soon as init returns. Up to its end Horovod gives it the rank that it had.
// The error is that it is not known to do so: then it must not be given a place.
//
// Horovod has no request for that: a process that gets no rank aborts in another thread
// than Python's. A signal would not do: what a handler does about SIGTERM is the script's,
// which may only take a note and train on, alone. But Horovod runs what the pickle of a
// request names, from those who have the process's key.
func (t NotifyTarget) Retire(ctx context.Context, rank int) error {
	program := fmt.Sprintf("%s\nretire(%d)\n", retireProgram, rank)
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(program))) //nolint:gosec // a page of text
	// GLOBAL, MARK, BINUNICODE, EMPTY_DICT, TUPLE, REDUCE, POP: exec(program, {}). The notice is older than any.
	return t.send(ctx, pickleProto+"cbuiltins\nexec\n(X"+string(length)+program+"}tR0"+notice(0))
}
