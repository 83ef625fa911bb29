// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// anyQueue is the label of the queue block that stands for every queue without
// a block of its own.
const anyQueue = "*"

// Queue is the operator's rule for the jobs of a pool that name a queue. It limits
// what these jobs are granted. If the queue has a block of its own, policies count its
// jobs for the queue; otherwise, for their namespace.
//
//	queue "production" {
//	  namespaces   = ["prod", "team-*"]
//	  max_priority = 70
//	  max_weight   = 4
//	}
type Queue struct {
	Name string
	// Namespaces lists the namespaces whose jobs may name the queue. A name that ends
	// in "*" stands for all names with that prefix. Nil means every namespace, empty
	// means none.
	Namespaces  []string
	MaxPriority int     // 0 is no bound
	MaxWeight   float64 // 0 is no bound
}

// Admits reports whether jobs of the namespace may name the queue.
func (q Queue) Admits(namespace string) bool {
	return q.Namespaces == nil || slices.ContainsFunc(q.Namespaces, func(pattern string) bool {
		if prefix, glob := strings.CutSuffix(pattern, "*"); glob {
			return strings.HasPrefix(namespace, prefix)
		}
		return pattern == namespace
	})
}

// Rule returns the rule for jobs of the pool that name a queue; false if no rule
// applies to the queue.
func (p Pool) Rule(queue string) (Queue, bool) {
	if q, ok := p.Queues[queue]; ok {
		return q, true
	}
	q, ok := p.Queues[anyQueue]
	return q, ok
}

// Block returns the rule in the block with the queue's own name; false if there is no
// such block.
func (p Pool) Block(queue string) (Queue, bool) {
	q, ok := p.Queues[queue]
	return q, ok && queue != anyQueue
}

// Rules returns the pool's rules, ordered by name.
func (p Pool) Rules() []Queue {
	out := make([]Queue, 0, len(p.Queues))
	for _, name := range slices.Sorted(maps.Keys(p.Queues)) {
		out = append(out, p.Queues[name])
	}
	return out
}

// Bounds of a queue block: a job cannot ask for more.
const (
	highestPriority = 32766 // of Nomad
	greatestWeight  = 1e6
	longestQueue    = 128
)

func (q *Queue) settings() settings {
	return settings{
		define("namespaces", &q.Namespaces, nil, list("namespaces", namespacesExample, namespace), "Namespaces whose jobs may name the queue; a `*` at the end stands for any rest, and `[]` is none.").or("all"),
		define("max_priority", &q.MaxPriority, 0, whole(1, highestPriority), "Priority that a higher one counts as.").or("no bound"),
		define("max_weight", &q.MaxWeight, 0, fraction(1/greatestWeight, greatestWeight), "Weight that a greater one counts as.").or("no bound"),
	}
}

// queue reads a queue block of a pool.
func (p *Pool) queue(b *hcl.Block) hcl.Diagnostics {
	q := Queue{Name: b.Labels[0]}
	_, diags := q.settings().read(b.Body)
	switch _, twice := p.Queues[q.Name]; {
	case q.Name == "" || len(q.Name) > longestQueue:
		return append(diags, wrong(b.LabelRanges[0], "Unusable queue",
			fmt.Sprintf(`A queue has a name of 1 to %d bytes; write queue "*" for those without a block of their own.`, longestQueue)))
	case twice:
		return append(diags, wrong(b.DefRange, "Repeated block", fmt.Sprintf("queue %q was already written for this pool; keep one of the two.", q.Name)))
	}
	if p.Queues == nil {
		p.Queues = map[string]Queue{}
	}
	p.Queues[q.Name] = q
	return diags
}

// namespacePattern is a namespace of Nomad, or the beginning of one and "*".
var namespacePattern = regexp.MustCompile(`^([a-zA-Z0-9-]{1,128}|[a-zA-Z0-9-]{0,127}\*)$`)

const namespacesExample = `["team-a", "prod-*"]`

// namespace accepts a name, which may end in "*".
func namespace(entry int, s string) (name, complaint string) {
	if !namespacePattern.MatchString(s) {
		return "", fmt.Sprintf(`Entry %d is no namespace; write names of letters, digits and dashes, of which the last character may be "*", such as %s.`, entry, namespacesExample)
	}
	return s, ""
}
