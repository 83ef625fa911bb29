// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"
	"github.com/shoenig/test/must"
)

// TestSchemasNameTheFields makes sure that what HCL accepts is what is read: a
// field in one place only would be refused, or taken and ignored.
func TestSchemasNameTheFields(t *testing.T) {
	cases := map[string]struct {
		spec   map[string]*hclspec.Spec
		fields any
	}{
		"plugin": {configSpec().GetObject().Attributes, Config{}},
		"task":   {taskConfigSpec().GetObject().Attributes, TaskConfig{}},
		"knobs":  {knobSpecs(), Knobs{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kinds := map[string]reflect.Kind{}
			for _, f := range reflect.VisibleFields(reflect.TypeOf(c.fields)) {
				if tag := f.Tag.Get("codec"); tag != "" {
					kind := f.Type.Kind()
					if kind == reflect.Pointer {
						kind = f.Type.Elem().Kind()
					}
					kinds[tag] = kind
				}
			}
			must.Eq(t, slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(c.spec)))
			types := map[reflect.Kind]string{
				reflect.String: "string", reflect.Float64: "number", reflect.Bool: "bool", reflect.Slice: "list(string)",
			}
			for name, spec := range c.spec {
				if d := spec.GetDefault(); d != nil {
					spec = d.Primary
				}
				if spec.GetBlockValue() == nil {
					must.Eq(t, types[kinds[name]], spec.GetAttr().Type, must.Sprint(name))
					must.Eq(t, name, spec.GetAttr().Name)
				}
			}
		})
	}
}

// TestNullsAreUnset is about how Nomad sends what a job leaves out.
func TestNullsAreUnset(t *testing.T) {
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, map[string]any{
		"command": nil, "slots": nil, "args": nil, "min_np": 2, "max_np": 2.5,
		"horovod": map[string]any{"autotune": nil, "stall_check": false, "cycle_time_ms": 1},
	}))
	var tc TaskConfig
	must.NoError(t, base.MsgPackDecode(data, &tc))
	must.Eq(t, TaskConfig{
		MinNP: ptr(2.), MaxNP: ptr(2.5),
		Horovod: &Knobs{StallCheck: ptr(false), CycleTimeMS: ptr(1.)},
	}, tc)
}
