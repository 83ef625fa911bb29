// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

const divided = `
pool "gpu" {
  policy "kolo" {}
  queue "research" {
    namespaces   = ["research", "vision-*"]
    guarantee    = 32
    limit        = 64
    weight       = 2
    max_job      = 16
    max_jobs     = 50
    max_time     = "100h"
    max_priority = 70
    order        = "skip"
    reclaim_after = "90s"
    max_time_action = "stop"
    queue "vision" {
      weight = 1.5
      max_priority = 80
    }
    queue "speech" {
      order      = "strict"
      namespaces = ["speech"]
      guarantee  = 4
      policy "fifo" {
        strict = true
      }
    }
  }
  queue "lab" {
    namespaces = ["lab-*"]
    per_namespace {
      limit    = 2
      max_jobs = 3
    }
  }
  queue "*" {
    limit    = 4
    max_time = "1h"
    order    = "strict"
  }
}`

func TestParse_QueueTree(t *testing.T) {
	c, err := parse(divided)
	must.NoError(t, err)
	p := c.Pool("gpu")
	must.NotNil(t, p.Tree)
	for _, tc := range []struct{ namespace, named, want string }{
		{"research", "research", "research"}, {"vision-1", "vision-1", "research"}, {"vision-1", "vision", "vision"},
		{"speech", "speech", "speech"}, {"lab-a", "lab-a", "lab"}, {"other", "other", ""},
	} {
		must.Eq(t, tc.want, p.QueueOf(tc.namespace, tc.named))
	}
	l := p.Tree.Layout()
	research, vision, lab, other := l.Nodes[1], l.Nodes[2], l.Leaf("lab", "lab-a"), l.Leaf("", "other")
	must.Eq(t, queue.Node{Name: "research", Children: []int{2, 3}, Guarantee: 32, Limit: 64, Weight: 2000, MaxJob: 16, MaxJobs: 50, MaxTime: 360_000}, bare(research))
	must.Eq(t, 1500, vision.Weight)
	must.Eq(t, 90, research.ReclaimAfter)
	must.True(t, research.Stops)
	must.Eq(t, []int{2, 3}, []int{l.Nodes[lab].Limit, l.Nodes[lab].MaxJobs})
	must.Eq(t, []int{4, 3600}, []int{l.Nodes[other].Limit, l.Nodes[other].MaxTime})
	for leaf, want := range map[int]queue.Order{2: queue.OrderSkip, 3: queue.OrderStrict, lab: queue.OrderPolicy, other: queue.OrderStrict} {
		must.Eq(t, want, l.OrderOf(leaf))
	}

	// A queue inside another takes its namespaces and its bounds, unless it has its own.
	rule, ok := p.RuleOf("vision-1", "vision")
	must.True(t, ok)
	must.Eq(t, "research", rule.Parent)
	must.True(t, rule.Admits("vision-1"))
	must.False(t, rule.Admits("speech"))
	must.Eq(t, 70, rule.MaxPriority)
	must.Eq(t, "fifo", p.Queues["speech"].Policy)
	rule, _ = p.RuleOf("other", "other")
	must.Eq(t, "*", rule.Name)
}

// bare leaves out what is not written.
func bare(n queue.Node) queue.Node {
	return queue.Node{Name: n.Name, Children: n.Children, Guarantee: n.Guarantee, Limit: n.Limit, Weight: n.Weight, MaxJob: n.MaxJob, MaxJobs: n.MaxJobs, MaxTime: n.MaxTime}
}

// A pool without queues is divided between namespaces, unless share = "none" or its policy
// shares it between tenants itself. Queues whose keys only bound what jobs request do not
// divide the pool.
func TestParse_Share(t *testing.T) {
	for src, isDivided := range map[string]bool{
		``:                 true,
		`policy "kolo" {}`: true,
		`policy "weighted-fair" {
  shares = { a = 2 }
}`: false,
		"share = \"namespaces\"\npolicy \"weighted-fair\" {}": true,
		`queue "a" { namespaces = ["x"] }
queue "b" { namespaces = ["x"] }
queue "*" { max_weight = 2 }`: false,
		`share = "none"`:                        false,
		`share = "namespaces"`:                  true,
		`queue "a" { max_time = "1h" }`:         true,
		`queue "a" { order = "strict" }`:        true,
		`queue "a" { reclaim_after = "0s" }`:    true,
		`queue "a" { weight = 1 }`:              true,
		"queue \"a\" {\n per_namespace {}\n}":   true,
		"queue \"a\" {\n policy \"fifo\" {}\n}": true,
		"queue \"a\" {\n queue \"b\" {}\n}":     true,
	} {
		c, err := parse("pool \"gpu\" {\n" + src + "\n}")
		must.NoError(t, err)
		must.Eq(t, isDivided, c.Pool("gpu").Tree != nil, must.Sprint(src))
	}
	must.NotNil(t, Default().Pool("gpu").Tree)
	must.True(t, Default().Pool("gpu").Tree.Plain())
	c, err := parse("policy_dir = \"/tmp\"\npool \"gpu\" {\n policy \"mine\" {}\n}")
	must.NoError(t, err)
	must.Nil(t, c.Pool("gpu").Tree, must.Sprint("a policy that is not built in may share between namespaces"))
}

// TestParse_WrongTrees has one mistake per line, with its line and what to do.
func TestParse_WrongTrees(t *testing.T) {
	for name, tc := range map[string]struct{ src, want string }{
		"guarantees above the parent's": {
			`queue "a" {
  guarantee = 4
  queue "b" { guarantee = 3 }
  queue "c" { guarantee = 2 }
}`, `kolo.hcl:3: Wrong value for guarantee of queue "a": the queues inside are guaranteed 5 slots together, and it is guaranteed 4 itself; write guarantee = 5 or more`,
		},
		"a namespace in two queues": {
			`queue "a" { namespaces = ["x"] }
queue "b" {
  weight     = 2
  namespaces = ["x"]
}`, `kolo.hcl:5: Wrong value for namespaces of queue "b": namespace "x" is in queue "a" already; remove it from one of the two.`,
		},
		"an action without a time": {
			`queue "a" {
  max_time_action = "stop"
}`, `kolo.hcl:3: Wrong value for max_time_action of queue "a": the queue has no max_time after which to stop a job; write max_time, or remove it.`,
		},
		"two queues of one name": {
			`queue "a" { weight = 1 }
queue "b" {
  queue "a" {}
}`, `kolo.hcl:4: Repeated block: queue "a" was already written for this pool; keep one of the two, or give one another name.`,
		},
		"a limit below the guarantee": {`queue "a" {
  guarantee = 4
  limit = 3
}`, `kolo.hcl:4: Wrong value for limit of queue "a": its guarantee of 4 slots is above its limit of 3; write limit = 4 or more, or a smaller guarantee.`},
		"weight 0":                    {`queue "a" { weight = 0 }`, `kolo.hcl:2: Wrong value for weight: 0 is not a number from 0.001 to 1000`},
		"half a slot":                 {`queue "a" { guarantee = 1.5 }`, `kolo.hcl:2: Wrong value for guarantee: 1.5 is not a whole number from 0 to 1000000`},
		"a guarantee of any":          {`queue "*" { guarantee = 1 }`, `kolo.hcl:2: Wrong value for guarantee of queue "*": "*" stands for any number of namespaces`},
		"two policies":                {"queue \"a\" {\n policy \"fifo\" {}\n policy \"kolo\" {}\n}", `kolo.hcl:4: Repeated block: A queue has one policy`},
		"a policy that is not there":  {"queue \"a\" {\n policy \"fife\" {}\n}", `kolo.hcl:3: Unknown policy: There is no policy "fife"`},
		"two caps":                    {"queue \"a\" {\n per_namespace {}\n per_namespace {}\n}", `kolo.hcl:4: Repeated block: A queue has one per_namespace block`},
		"caps above the limit":        {"queue \"a\" {\n limit = 2\n per_namespace { limit = 3 }\n}", `kolo.hcl:4: Wrong value for per_namespace of queue "a": a limit of 3 slots for each namespace is above that of the queue, 2`},
		"an unknown key":              {`queue "a" { guarante = 1 }`, `kolo.hcl:2: Unsupported argument`},
		"an unknown key of caps":      {"queue \"a\" {\n per_namespace {\n  weight = 1\n }\n}", `kolo.hcl:4: Unsupported argument`},
		"an unknown share":            {`share = "all"`, `kolo.hcl:2: Wrong value for share: "all" is not known; write one of none, namespaces.`},
		"undivided and divided":       {"share = \"none\"\nqueue \"a\" {\n weight = 1\n}", `kolo.hcl:4: Contradiction: this divides the pool, but share = "none" leaves it undivided`},
		"a policy's option is wrong":  {"queue \"a\" {\n policy \"fifo\" { strict = 3 }\n}", `kolo.hcl:3: `},
		"a queue outside of any pool": {"}\nqueue \"a\" {", `Write it inside of pool "<node pool>"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("pool \"gpu\" {\n" + tc.src + "\n}")
			must.ErrorContains(t, err, tc.want)
			must.True(t, strings.HasPrefix(err.Error(), "kolo.hcl:"))
		})
	}
}

const reserved = `
pool "gpu" {
  queue "a" {
    guarantee = 2
    limit     = 8
  }
  reservation "demo" {
    queue = "a"
    slots = 6
    from  = "2026-12-01T09:00:00Z"
    until = "2026-12-01T12:00:00+01:00"
  }
}`

func TestParse_Reservations(t *testing.T) {
	c, err := parse(reserved)
	must.NoError(t, err)
	at := func(now string) int {
		moment, err := time.Parse(time.RFC3339, now)
		must.NoError(t, err)
		l := c.Pool("gpu").Tree.Layout()
		l.At(float64(moment.Unix()))
		return l.Nodes[1].Guarantee
	}
	must.Eq(t, []int{2, 8, 8, 2}, []int{at("2026-12-01T08:59:59Z"), at("2026-12-01T09:00:00Z"), at("2026-12-01T10:59:59Z"), at("2026-12-01T11:00:00Z")})

	for name, tc := range map[string]struct{ from, to, want string }{
		"no such queue":  {`queue = "a"`, `queue = "b"`, `kolo.hcl:8: Wrong value for queue of reservation "demo": there is no queue "b"`},
		"too many slots": {"slots = 6", "slots = 7", `kolo.hcl:9: Wrong value for slots of reservation "demo": with it, queue "a" is guaranteed 9 slots, and its limit is 8; reserve less, or raise the limit.`},
		"no slots":       {"slots = 6", "", `kolo.hcl:7: Missing argument: reservation "demo" has no slots; write slots = ….`},
		"no zone":        {"09:00:00Z", "09:00:00", `kolo.hcl:10: Wrong value for from: "2026-12-01T09:00:00" is no time with its zone`},
		"it ends first":  {"12:00:00+01:00", "12:00:00+05:00", `kolo.hcl:11: Wrong value for until of reservation "demo": it ends before it begins`},
		"an unknown key": {"slots = 6", "slot = 6", `kolo.hcl:9: Unsupported argument`},
		"twice":          {"\n}", "\n  reservation \"demo\" {}\n}", `kolo.hcl:13: Repeated block: reservation "demo" was already written`},
		"not divided":    {"guarantee = 2\n    limit     = 8", "", `kolo.hcl:6: Nothing to reserve for`},
	} {
		t.Run(name, func(t *testing.T) {
			at := strings.LastIndex(reserved, tc.from)
			must.GreaterEq(t, 0, at)
			_, err := parse(reserved[:at] + tc.to + reserved[at+len(tc.from):])
			must.ErrorContains(t, err, tc.want)
		})
	}
}
