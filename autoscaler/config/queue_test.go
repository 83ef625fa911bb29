// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestParse_Queues(t *testing.T) {
	c, err := parse(`
pool "gpu" {
  policy "weighted-fair" {
    shares = { production = 3 }
  }
  queue "production" {
    namespaces   = ["prod", "team-*"]
    max_priority = 70
    max_weight   = 2.5
  }
  queue "closed" {
    namespaces = []
  }
  queue "*" {}
}
pool "*" {
  queue "*" {
    max_priority = 50
  }
}`)
	must.NoError(t, err)
	p := c.Pool("gpu")
	must.Eq(t, []Queue{{Name: "*"}, {Name: "closed", Namespaces: []string{}}, {Name: "production", Namespaces: []string{"prod", "team-*"}, MaxPriority: 70, MaxWeight: 2.5}}, p.Rules())
	must.Eq(t, "weighted-fair", p.Policy)
	rule := func(p Pool, queue string) Queue {
		q, ok := p.Rule(queue)
		must.True(t, ok)
		return q
	}
	must.Eq(t, "production", rule(p, "production").Name)
	must.Eq(t, "*", rule(p, "other").Name)
	must.Eq(t, 50, rule(c.Pool("elsewhere"), "production").MaxPriority)
	_, ok := Default().Pool("gpu").Rule("production")
	must.False(t, ok)

	for namespace, admitted := range map[string]bool{"prod": true, "production": false, "team-": true, "team-a": true, "team": false, "": false, "my-team-a": false} {
		must.Eq(t, admitted, rule(p, "production").Admits(namespace), must.Sprint(namespace))
		must.False(t, rule(p, "closed").Admits(namespace))
		must.True(t, rule(p, "*").Admits(namespace))
	}
}

func TestParse_QueueMistakes(t *testing.T) {
	for name, tc := range map[string]struct{ src, want string }{
		"priority too high":       {"max_priority = 40000", "kolo.hcl:3: Wrong value for max_priority: 40000 is not a whole number from 1 to 32766"},
		"priority zero":           {"max_priority = 0", "kolo.hcl:3: Wrong value for max_priority"},
		"weight zero":             {"max_weight = 0", "kolo.hcl:3: Wrong value for max_weight: 0 is not a number from"},
		"weight negative":         {"max_weight = -1", "kolo.hcl:3: Wrong value for max_weight"},
		"weight endless":          {"max_weight = 1e400", "kolo.hcl:3: Wrong value for max_weight"},
		"weight in quotes":        {`max_weight = "4"`, "write max_weight = 2.5"},
		"namespaces a text":       {`namespaces = "a"`, `write namespaces = ["team-a", "prod-*"]`},
		"namespaces null":         {`namespaces = null`, "A list of namespaces is expected"},
		"a namespace of a number": {`namespaces = ["a", 3]`, "kolo.hcl:3: Wrong value for namespaces: Entry 2 is no text. A list of namespaces is expected"},
		"a star within":           {`namespaces = ["a*b"]`, `Entry 1 is no namespace`},
		"an empty namespace":      {`namespaces = [""]`, `Entry 1 is no namespace`},
		"misspelt":                {`max_prio = 3`, `kolo.hcl:3: Unsupported argument`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("pool \"gpu\" {\n queue \"q\" {\n  " + tc.src + "\n }\n}")
			must.ErrorContains(t, err, tc.want)
		})
	}
	_, err := parse("pool \"gpu\" {\n queue \"q\" {}\n queue \"q\" {}\n}")
	must.ErrorContains(t, err, `kolo.hcl:3: Repeated block: queue "q" was already written for this pool`)
	_, err = parse("pool \"gpu\" {\n queue \"\" {}\n}")
	must.ErrorContains(t, err, "kolo.hcl:2: Unusable queue")
}
