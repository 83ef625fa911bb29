// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Version is the version of the protocol.
const Version = 1

// Hello is the message with which a process introduces itself.
type Hello struct {
	// Client names the client and its version, Torch is PyTorch's version.
	Client string `json:"client"`
	Torch  string `json:"torch"`
	// Ends states that the process understands end.
	Ends bool `json:"ends"`
}

// Place is a process's place in a ring.
type Place struct {
	Generation uint64 `json:"generation"`
	Rank       int    `json:"rank"`
	Size       int    `json:"size"`
	LocalRank  int    `json:"local_rank"`
	LocalSize  int    `json:"local_size"`
	CrossRank  int    `json:"cross_rank"`
	CrossSize  int    `json:"cross_size"`
	// Replica is the number of consecutive ranks that share one copy of a sharded model, 0
	// if each rank has a full copy.
	Replica int `json:"replica,omitempty"`
	// Newcomers are the ranks that do not have the training state.
	Newcomers []int `json:"newcomers"`
	// Attests states that the process must wait for attested before it sends or receives
	// the state.
	Attests bool `json:"attests,omitempty"`
	// KeepBatch states that the process must not adapt its batch.
	KeepBatch bool `json:"keep_batch,omitempty"`
}

// Types of messages.
const (
	typeHello    = "hello"
	typeReady    = "ready"
	typeForming  = "forming"
	typeFormed   = "formed"
	typeProgress = "progress"
	typeWelcome  = "welcome"
	typeError    = "error"
	typePlace    = "place"
	typeChange   = "change"
	typeBroken   = "broken"
	typeAttested = "attested"
	typeEnd      = "end"
	typeBatch    = "batch"
)

// request is a message of a process, with the fields of all types; wire.ParseProgress reads
// Progress's.
type request struct {
	Type       string `json:"type"`
	Version    int    `json:"version"`
	Secret     string `json:"secret"`
	Generation uint64 `json:"generation"`
	Reason     string `json:"reason"`
	// Round is the number, from 1, of the group that the process forms in a generation.
	Round int `json:"round"`
	// Listening holds the addresses at which the process listens for the others, nil if it
	// does not report them.
	Listening *[]string `json:"listening"`
	Hello
}

// maxListening bounds the addresses of one process, which has a few groups with one address
// each.
const maxListening = 256

// group returns the fields of a message about a group, or an error if they are invalid.
func (r request) group() (round int, listening []netip.AddrPort, known bool, err error) {
	if r.Round < 0 || r.Round > maxRounds {
		return 0, nil, false, fmt.Errorf("field \"round\" of message %q: is %d, must be from 1 to %d", r.Type, r.Round, maxRounds)
	}
	if r.Listening == nil {
		return max(r.Round, 1), nil, false, nil
	}
	if n := len(*r.Listening); n > maxListening {
		return 0, nil, false, fmt.Errorf("field \"listening\" of message %q: has %d addresses, must have at most %d", r.Type, n, maxListening)
	}
	for _, text := range *r.Listening {
		addr, err := netip.ParseAddrPort(text)
		if err != nil {
			return 0, nil, false, fmt.Errorf("field \"listening\" of message %q: %w", r.Type, err)
		}
		listening = append(listening, addr)
	}
	return max(r.Round, 1), listening, true, nil
}

// maxRounds bounds the groups of one generation. A generation has two.
const maxRounds = 16

func parse(line []byte) (request, error) {
	var r request
	err := json.Unmarshal(wire.ValidJSON(line), &r)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		return r, fmt.Errorf("field %q of message %q: is a JSON %s, must be a %s", field, r.Type, wrong.Value, jsonType(wrong.Type))
	case err != nil:
		return r, fmt.Errorf("not a JSON object: %w", err)
	}
	return r, nil
}

// jsonType returns JSON's name for a field's type.
func jsonType(t reflect.Type) string {
	if t.Kind() == reflect.Uint64 {
		return "whole number, 0 or more"
	}
	return cmp.Or(map[reflect.Kind]string{reflect.Int: "whole number"}[t.Kind()], t.String())
}

// The agent's messages, without their newline.

func welcome() []byte { return encode(typeWelcome, map[string]any{"version": Version}) }

func failure(err error) []byte { return encode(typeError, map[string]any{"message": err.Error()}) }

func change(generation uint64) []byte {
	return encode(typeChange, map[string]any{"generation": generation})
}

func broken(generation uint64) []byte {
	return encode(typeBroken, map[string]any{"generation": generation})
}

func end(generation uint64) []byte {
	return encode(typeEnd, map[string]any{"generation": generation})
}

func batch(keep bool) []byte { return encode(typeBatch, map[string]any{"keep": keep}) }

func attested(generation uint64, round int) []byte {
	return encode(typeAttested, map[string]any{"generation": generation, "round": round})
}

func place(p Place) []byte {
	if p.Newcomers == nil {
		p.Newcomers = []int{}
	}
	b, _ := json.Marshal(struct { // plain data
		Type string `json:"type"`
		Place
	}{typePlace, p})
	return b
}

func encode(kind string, fields map[string]any) []byte {
	fields["type"] = kind
	b, _ := json.Marshal(fields) // plain data
	return b
}
