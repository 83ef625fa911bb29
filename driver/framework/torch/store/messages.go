// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Kinds of messages between hosts and leader, in wire.Put.Scope and
// wire.Fill.Scope.
const (
	scopeOp   = "op"   // Key: number of the operation, Value: the operation
	scopeHave = "have" // Key: entries applied, Value: how many of them were the host's own
	scopeLog  = "log"  // Value, or Values[keyEntries]: a batch
)

const keyEntries = "entries"

// opPut returns a message with an operation of a ring on that many hosts.
func opPut(seq uint64, op []byte, hosts int) wire.Put {
	return wire.Put{Scope: scopeOp, Key: strconv.FormatUint(seq, 10), Value: op, Size: hosts}
}

func havePut(applied, own uint64, hosts int) wire.Put {
	return wire.Put{Scope: scopeHave, Key: strconv.FormatUint(applied, 10), Value: binary.AppendUvarint(nil, own), Size: hosts}
}

func logPut(b batch, hosts int) wire.Put {
	return wire.Put{Scope: scopeLog, Value: appendBatch(nil, b), Size: hosts}
}

func logFill(b batch, hosts []string) wire.Fill {
	return wire.Fill{Scope: scopeLog, Values: map[string][]byte{keyEntries: appendBatch(nil, b)}, Hosts: hosts}
}

// number reads the key of an opPut or a havePut.
func number(p wire.Put) (uint64, error) {
	n, err := strconv.ParseUint(p.Key, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: number of %q: %w", errMalformed, p.Scope, err)
	}
	return n, nil
}

// decodeHave reads a havePut.
func decodeHave(p wire.Put) (applied, own uint64, err error) {
	applied, err = number(p)
	if err != nil {
		return 0, 0, err
	}
	d := decoder{rest: p.Value}
	own = d.uvarint()
	if err := d.end("position"); err != nil {
		return 0, 0, err
	}
	if own > applied {
		return 0, 0, fmt.Errorf("%w: %d own entries of %d", errMalformed, own, applied)
	}
	return applied, own, nil
}
