// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	torchtask "github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// TestSchemaNamesTheFields makes sure that HCL's schema and the decoded fields
// agree: a field in only one of them would be refused, or accepted and ignored. The
// fields of a task are declared once.
func TestSchemaNamesTheFields(t *testing.T) {
	kinds := map[string]reflect.Kind{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(Config{})) {
		if tag := f.Tag.Get("codec"); tag != "" {
			kinds[tag] = f.Type.Kind()
		}
	}
	spec := configSpec().GetObject().Attributes
	must.Eq(t, slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(spec)))
	types := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "bool", reflect.Slice: "list(string)", reflect.Int: "number"}
	for name, spec := range spec {
		if d := spec.GetDefault(); d != nil {
			spec = d.Primary
		}
		must.Eq(t, types[kinds[name]], spec.GetAttr().Type, must.Sprint(name))
		must.Eq(t, name, spec.GetAttr().Name)
	}
}

// TestNullsAreUnset covers how Nomad sends fields that a job omits.
func TestNullsAreUnset(t *testing.T) {
	c := &drivers.TaskConfig{}
	must.NoError(t, c.EncodeConcreteDriverConfig(map[string]any{
		"command": "python3", "slots": nil, "args": nil, "min_np": 2, "max_np": 2.5, "service": "s", "elastic_timeout": "",
		"horovod": map[string]any{"autotune": nil, "stall_check": false, "cycle_time_ms": 1},
	}))
	var given map[string]any
	must.NoError(t, c.DecodeDriverConfig(&given))
	var pl plan
	must.SliceEmpty(t, settings.Read(pl.bind(), given, "config"))
	must.Eq(t, isolationExec, pl.isolation)
	task, wrong := taskconfig.Read(taskdriver.Horovod{}, given, newHost().environment().surroundings(isolation.HostView(testTaskDir)))
	must.Eq(t, []string{"max_np = 2.5: must be a whole number"}, wrong.Strings())
	must.Eq(t, "/usr/bin/python3", task.Agent.Command)
	must.SliceEmpty(t, task.Agent.Args)
	must.Eq(t, "s", task.Agent.Service)
	must.Eq(t, ":25000", task.Agent.Listen)
	must.Eq(t, "", task.Agent.Interface)
	must.Eq(t, 2, task.Agent.MinNP)
	env, outside, problems := taskdriver.Horovod{}.Environment(given)
	must.SliceEmpty(t, problems)
	must.Eq(t, map[string]string{"HOROVOD_CYCLE_TIME": "1", "HOROVOD_STALL_CHECK_DISABLE": "1"}, env)
	must.Eq(t, map[string]string{"HOROVOD_GLOO_TIMEOUT_SECONDS": "30", "HOROVOD_CACHE_CAPACITY": "0"}, outside)
}

// TestDocumentation compares the reference's tables with the declarations.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/driver.md")
	must.NoError(t, err)
	section := func(title string) string {
		_, rest, found := strings.Cut(string(text), "\n"+title+"\n")
		must.True(t, found, must.Sprint(title))
		rest, _, _ = strings.Cut(rest, "\n##")
		return rest
	}
	documented := map[string]string{}
	for line := range strings.Lines(section("### `config` of a task")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `") {
			documented[strings.Trim(cells[1], " `")] = strings.ReplaceAll(strings.TrimSpace(cells[2]), "`", "")
		}
	}
	declared := map[string]string{}
	for _, framework := range []Framework{taskdriver.Horovod{}, torchtask.PyTorch{}} {
		own, blocks := framework.Settings()
		for _, s := range append(taskSettings(), own...) {
			declared[s.Name] = s.Default
		}
		for name, names := range blocks {
			declared[name] = "none"
			block := section("### `" + name + "` block")
			for _, s := range names {
				must.StrContains(t, block, "`"+s.Name+"`")
			}
		}
	}
	must.Eq(t, declared, documented)
}

// TestForeignSettings: settings of another framework pass the schema, so that they
// can be refused with what to write instead.
func TestForeignSettings(t *testing.T) {
	for framework, want := range map[Framework][]string{
		taskdriver.Horovod{}: {
			`torch: is for PyTorch; Horovod's settings are in the horovod block`,
			`mode = "5s": is for PyTorch; processes of Horovod stay when the ring changes; leave it out`,
			`spares = "5s": is for PyTorch; processes of Horovod stay when the ring changes; leave it out`,
			`spare_hosts = "5s": is for PyTorch; a process of Horovod is started for one rank, so it can't take another; leave it out`,
			`replica = "5s": is for PyTorch; each process of Horovod holds the whole model; leave it out`,
			`checkpoint: is for PyTorch; processes of Horovod stay when the ring changes; leave it out`,
		},
		torchtask.PyTorch{}: {
			`gloo_timeout = "5s": is Horovod's; set timeout in the torch block`,
			"horovod: is Horovod's; PyTorch's settings are in the torch block (backend, timeout and others)",
		},
	} {
		spec := taskConfigSpec(framework).GetObject().Attributes
		h, c := newHost(), goodTask()
		fields, blocks := framework.Foreign()
		for _, name := range fields {
			must.Eq(t, "string", spec[name].GetAttr().Type)
			c[name] = "5s"
		}
		for _, name := range blocks {
			must.Eq(t, name, spec[name].GetBlockAttrs().Name)
			c[name] = map[string]any{"any": "thing"}
		}
		_, err := validate(framework, c, h.environment())
		must.EqError(t, err, strings.Join(want, "; "))
	}
}
