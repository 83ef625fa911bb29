// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/contract"
)

// TestFields checks that each field decoded from Nomad's answers is among the fields that
// are asserted of a real Nomad.
func TestFields(t *testing.T) {
	for _, of := range []struct {
		value any
		paths []string
	}{
		{wireNode{}, []string{"/v1/nodes", "/v1/node/{}"}},
		{wireAlloc{}, []string{"/v1/allocations"}},
		{wirePlace{}, []string{"/v1/allocation/{}"}},
		{wireJob{}, []string{"/v1/jobs"}},
		{wireSummary{}, []string{"/v1/job/{}/summary"}},
		{wireEval{}, []string{"/v1/evaluations"}},
		{wireStats{}, []string{"/v1/client/stats"}},
	} {
		asserted := map[string]bool{"blockedeval": true} // of evaluations that are not blocked: in the event stream
		for _, p := range of.paths {
			for _, f := range contract.Fields[p] {
				asserted[strings.ToLower(strings.ReplaceAll(f, "?", ""))] = true
			}
		}
		for _, f := range fields(reflect.TypeOf(of.value)) {
			must.MapContainsKey(t, asserted, strings.ToLower(f), must.Sprintf("%T is read of %v", of.value, of.paths))
		}
	}
}

// fields are the paths of what is decoded into a type, * for any element.
func fields(t reflect.Type) []string {
	var out []string
	under := func(name string, t reflect.Type) {
		for _, f := range fields(t) {
			out = append(out, strings.TrimSuffix(name+"."+f, "."))
		}
	}
	switch {
	case t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[wireNode]().PkgPath(), t.Kind() == reflect.Pointer && t.Elem().Name() == "":
		return fields(t.Elem())
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time](): // a time is text
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			under(name, f.Type)
		}
	case t.Kind() == reflect.Map, t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]():
		under("*", t.Elem())
	default:
		return []string{""}
	}
	return out
}
