// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Version is the protocol's.
const Version = 1

// Hello is how a process introduces itself.
type Hello struct {
	// Client names the client and its version, Torch is PyTorch's version.
	Client string `json:"client"`
	Torch  string `json:"torch"`
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
	// Replica is how many members with consecutive ranks share one copy of a sharded
	// model, 0 where each has all of it.
	Replica int `json:"replica,omitempty"`
	// Newcomers are the ranks that do not hold the training state.
	Newcomers []int `json:"newcomers"`
}

// Types of messages.
const (
	typeHello    = "hello"
	typeReady    = "ready"
	typeFormed   = "formed"
	typeProgress = "progress"
	typeWelcome  = "welcome"
	typeError    = "error"
	typePlace    = "place"
	typeChange   = "change"
	typeBroken   = "broken"
)

// request is a message of a process, with all fields that any has; Progress's are
// read by wire.ParseProgress.
type request struct {
	Type       string `json:"type"`
	Version    int    `json:"version"`
	Secret     string `json:"secret"`
	Generation uint64 `json:"generation"`
	Reason     string `json:"reason"`
	Hello
}

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

// jsonType is what JSON calls a field's type.
func jsonType(t reflect.Type) string {
	if t.Kind() == reflect.Uint64 {
		return "whole number, 0 or more"
	}
	return cmp.Or(map[reflect.Kind]string{reflect.Int: "whole number"}[t.Kind()], t.String())
}

// The answers, without their line's end.

func welcome() []byte { return encode(typeWelcome, map[string]any{"version": Version}) }

func failure(err error) []byte { return encode(typeError, map[string]any{"message": err.Error()}) }

func change(generation uint64) []byte {
	return encode(typeChange, map[string]any{"generation": generation})
}

func broken(generation uint64) []byte {
	return encode(typeBroken, map[string]any{"generation": generation})
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
