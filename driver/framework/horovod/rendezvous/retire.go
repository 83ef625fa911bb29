// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
)

// retire.py is the program that a process runs to end itself.
//
//go:embed retire.py
var retireProgram string

// Alone is the assignment of a process that is the only member of its ring.
var Alone = Assignment{Size: 1, LocalSize: 1, CrossSize: 1}

// Retire ends a process that waits in Horovod's init for its next rank. The process exits, as by
// sys.exit(), as soon as init returns. Until then Horovod gives it the rank that it had. After an
// error the process may not exit, so it must not be given a place.
//
// Horovod has no request for that: a process that gets no rank aborts in a thread other than
// Python's. A signal would not do either: the script decides how to handle SIGTERM, and may just
// record it and go on training, alone. But Horovod executes the code that a request's pickle names,
// if the request is signed with the process's key.
func (t NotifyTarget) Retire(ctx context.Context, rank int) error {
	program := fmt.Sprintf("%s\nretire(%d)\n", retireProgram, rank)
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(program))) //nolint:gosec // a page of text
	// GLOBAL, MARK, BINUNICODE, EMPTY_DICT, TUPLE, REDUCE, POP: exec(program, {}). The notice's timestamp is older than any other.
	return t.send(ctx, pickleProto+"cbuiltins\nexec\n(X"+string(length)+program+"}tR0"+notice(0))
}
