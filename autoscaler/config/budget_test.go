// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// A queue's half-life is its own, else that of the queue around it, else that of the pool.
func TestParse_OverTime(t *testing.T) {
	c, err := parse(`
pool "gpu" {
  half_life = "168h"
  queue "a" {
    budget {
      slot_hours = 5000
    }
    queue "b" {
      half_life = "24h"
      queue "c" {}
    }
  }
  queue "d" {
    half_life = "0s"
    budget {
      slot_hours = 0.5
      per        = "week"
      beyond     = "stop"
    }
  }
}
pool "cpu" {
  share     = "namespaces"
  half_life = "1h"
}
pool "any" {
  half_life = "1h"
  queue "*" { half_life = "2h" }
}`)
	must.NoError(t, err)
	gpu := c.Pool("gpu")
	for name, want := range map[string]time.Duration{"a": 168 * time.Hour, "b": 24 * time.Hour, "c": 24 * time.Hour, "d": 0} {
		must.Eq(t, want, gpu.Queues[name].HalfLife)
	}
	must.Eq(t, &queue.Budget{SlotHours: 5000, Per: queue.Month}, gpu.Queues["a"].Budget)
	must.Eq(t, &queue.Budget{SlotHours: 0.5, Per: queue.Week, Stop: true}, gpu.Queues["d"].Budget)
	must.Nil(t, gpu.Queues["b"].Budget)
	for pool, want := range map[string]float64{"gpu": 168 * 3600, "cpu": 3600, "any": 7200} {
		l := c.Pool(pool).Tree.Layout()
		must.Eq(t, want, l.Nodes[l.Leaf("", "other")].HalfLife, must.Sprint(pool))
	}
	must.False(t, treeIn(t, `queue "a" { weight = 1 }`).Remembers())
	must.True(t, treeIn(t, `queue "a" { half_life = "1h" }`).Remembers())
	must.True(t, treeIn(t, "queue \"a\" {\n budget {\n  slot_hours = 1\n }\n}").Remembers())
}

func treeIn(t *testing.T, lines string) *queue.Tree {
	t.Helper()
	c, err := parse("pool \"gpu\" {\n" + lines + "\n}")
	must.NoError(t, err)
	return c.Pool("gpu").Tree
}

func TestParse_OverTimeMistakes(t *testing.T) {
	for name, tc := range map[string]struct{ src, want string }{
		"no amount":             {"queue \"a\" {\n budget {}\n}", `kolo.hcl:3: Missing argument: The budget of queue "a" has no slot_hours; write slot_hours = ….`},
		"nothing":               {"queue \"a\" {\n budget {\n  slot_hours = 0\n }\n}", `kolo.hcl:4: Wrong value for slot_hours: 0 is not a number from 0.001`},
		"another period":        {"queue \"a\" {\n budget {\n  slot_hours = 1\n  per = \"year\"\n }\n}", `kolo.hcl:5: Wrong value for per: "year" is not known; write one of day, week, month.`},
		"something else beyond": {"queue \"a\" {\n budget {\n  slot_hours = 1\n  beyond = \"kill\"\n }\n}", `write one of borrow, stop`},
		"two budgets":           {"queue \"a\" {\n budget {\n  slot_hours = 1\n }\n budget {\n  slot_hours = 2\n }\n}", `kolo.hcl:6: Repeated block: A queue has one budget block; remove all but one.`},
		"of any namespace":      {"queue \"*\" {\n budget {\n  slot_hours = 1\n }\n}", `kolo.hcl:3: Wrong value for budget of queue "*": "*" stands for any number of namespaces; write a queue for each namespace that has a budget.`},
		"an unknown key":        {"queue \"a\" {\n budget {\n  slots = 1\n }\n}", `kolo.hcl:4: Unsupported argument`},
		"a negative half-life":  {`queue "a" { half_life = "-1h" }`, `kolo.hcl:2: Wrong value for half_life: -1h0m0s is outside 0s to 8760h.`},
		"a short half-life":     {`queue "a" { half_life = "59m" }`, `kolo.hcl:2: Wrong value for half_life: 59m0s is outside 1h to 8760h; write 0s to forget at once.`},
		"of a pool":             {`half_life = "9000h"`, `kolo.hcl:2: Wrong value for half_life`},
		"costs as a number":     {`slot_cost = 3`, `kolo.hcl:2: Wrong value for slot_cost: A table of costs by device is expected; write slot_cost = { "NVIDIA H100*" = 4, "*" = 1 }.`},
		"a cost as text":        {`slot_cost = { "*" = "4" }`, `The cost of "*" is no number`},
		"a cost of nothing":     {`slot_cost = { "*" = 0 }`, `The cost of "*", 0, is not a number from 0.001 to 1000.`},
		"a star within":         {`slot_cost = { "NV*H100" = 4 }`, `"NV*H100" is no device; write a name, or the beginning of one and "*" as its last character.`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("pool \"gpu\" {\n" + tc.src + "\n}")
			must.ErrorContains(t, err, tc.want)
		})
	}
}

// TestPool_CostOf has one device per line. Full names take precedence over patterns, and
// longer patterns over shorter ones, in any order in the configuration.
func TestPool_CostOf(t *testing.T) {
	c, err := parse(`
pool "gpu" {
  slot_cost = { "*" = 0.5, "NVIDIA*" = 2, "NVIDIA H100*" = 4, "NVIDIA H100 PCIe" = 3, "amd/gpu/*" = 1.5, "nvidia/gpu/NVIDIA L4" = 7 }
}
pool "cpu" {
  slot_cost = { "NVIDIA*" = 2 }
}`)
	must.NoError(t, err)
	for device, want := range map[string]float64{
		"nvidia/gpu/NVIDIA H100 80GB HBM3": 4, "nvidia/gpu/NVIDIA H100 PCIe": 3, "nvidia/gpu/NVIDIA A100": 2, "nvidia/gpu/Tesla T4": 0.5,
		"amd/gpu/MI300X": 1.5, "nvidia/gpu/NVIDIA L4": 7, "nvidia/gpu/NVIDIA L40": 2, "NVIDIA H100 80GB HBM3": 4, "": 0.5, "h100": 0.5,
	} {
		must.Eq(t, want, c.Pool("gpu").CostOf(device), must.Sprint(device))
	}
	must.Eq(t, 1, c.Pool("cpu").CostOf("nvidia/gpu/Tesla T4"))
	must.Eq(t, 1, Default().Pool("cpu").CostOf("nvidia/gpu/Tesla T4"))
}
