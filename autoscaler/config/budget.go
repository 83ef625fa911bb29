// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// The values of beyond in a budget block.
const (
	BeyondBorrow = "borrow" // the queue gets what no other queue wants
	BeyondStop   = "stop"   // it gets nothing
)

// The limits of costs and budgets.
const (
	leastCost     = 0.001
	greatestCost  = 1000
	mostSlotHours = 1e9
)

func budgetSettings(b *queue.Budget, per, beyond *string) settings {
	return settings{
		define("slot_hours", &b.SlotHours, 0, fraction(leastCost, mostSlotHours), "Slot-hours that the queue may use in a period. Each counts by its [cost](#cost-of-slots).").or("required"),
		define("per", per, string(queue.Month), oneOf(string(queue.Day), string(queue.Week), string(queue.Month)), "Calendar period in UTC. A week begins on Monday."),
		define("beyond", beyond, BeyondBorrow, oneOf(BeyondBorrow, BeyondStop), "Slots of the queue when its budget is spent. `borrow`: those that no other queue wants. `stop`: none."),
	}
}

// halfLife is the format of a half-life: 0, or a duration that is long enough to compare
// the use of queues.
var halfLife = format[time.Duration]{"duration, `0s` or 1h to 8760h", func(a *hcl.Attribute) (time.Duration, hcl.Diagnostics) {
	if _, diags := value(a, cty.String, `"168h"`); diags.HasErrors() {
		return 0, diags
	}
	d, diags := duration("0s", "8760h").read(a)
	if !diags.HasErrors() && d != 0 && d < queue.ShortestHalfLife*time.Second {
		return 0, wrongValue(a, "%s is outside 1h to 8760h; write 0s to forget at once.", d)
	}
	return d, diags
}}

// budget reads the budget block of a queue. It returns nil if there is none.
func (r *queueReader) budget(name string, blocks hcl.Blocks) (*queue.Budget, hcl.Diagnostics) {
	switch len(blocks) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, hcl.Diagnostics{wrong(blocks[1].DefRange, "Repeated block", "A queue has one budget block; remove all but one.")}
	}
	b, at := &queue.Budget{}, blocks[0]
	r.ranges[[2]string{name, "budget"}] = at.DefRange
	var per, beyond string
	table := budgetSettings(b, &per, &beyond)
	table.reset()
	content, diags := table.read(at.Body)
	if content.Attributes["slot_hours"] == nil {
		diags = append(diags, wrong(at.DefRange, "Missing argument", fmt.Sprintf("The budget of queue %q has no slot_hours; write slot_hours = ….", name)))
	}
	b.Per, b.Stop = queue.Period(per), beyond == BeyondStop
	return b, diags
}

// inheritHalfLife sets the half-life of a queue: its own, or that of the queue or pool around it.
func (q *Queue) inheritHalfLife(own bool, pool *Pool, parent *Queue) {
	switch {
	case own:
	case parent != nil:
		q.HalfLife = parent.HalfLife
	default:
		q.HalfLife = pool.HalfLife
	}
}

// CostOf returns the cost of a slot on a type of device. The type is a device's name, or
// its ID (vendor/type/name). A whole name has precedence over a pattern, and a longer
// pattern over a shorter one. If no entry matches, the cost is 1.
func (p Pool) CostOf(typ string) float64 {
	name := typ
	if parts := strings.SplitN(typ, "/", 3); len(parts) == 3 {
		name = parts[2]
	}
	for _, of := range []string{typ, name} {
		if cost, ok := p.SlotCost[of]; ok && !strings.HasSuffix(of, "*") {
			return cost
		}
	}
	out, longest := 1.0, -1
	for pattern, cost := range p.SlotCost {
		prefix, glob := strings.CutSuffix(pattern, "*")
		if glob && len(prefix) > longest && (strings.HasPrefix(typ, prefix) || strings.HasPrefix(name, prefix)) {
			out, longest = cost, len(prefix)
		}
	}
	return out
}

const costsExample = `{ "NVIDIA H100*" = 4, "*" = 1 }`

// costs is the format of a table of numbers by type of device.
var costs = format[map[string]float64]{"table of numbers, 0.001 to 1000", func(a *hcl.Attribute) (map[string]float64, hcl.Diagnostics) {
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		return nil, diags
	}
	if v.IsNull() || !v.IsWhollyKnown() || !v.Type().IsObjectType() || v.LengthInt() == 0 {
		return nil, wrongValue(a, "A table of costs by device is expected; write %s = %s.", a.Name, costsExample)
	}
	out := map[string]float64{}
	for name, of := range v.AsValueMap() {
		if of.IsNull() || of.Type() != cty.Number {
			return nil, wrongValue(a, "The cost of %q is no number; write %s = %s.", name, a.Name, costsExample)
		}
		f, _ := of.AsBigFloat().Float64()
		if !(f >= leastCost && f <= greatestCost) {
			return nil, wrongValue(a, "The cost of %q, %v, is not a number from %v to %v.", name, f, leastCost, greatestCost)
		}
		if rest, _ := strings.CutSuffix(name, "*"); strings.Contains(rest, "*") || name == "" {
			return nil, wrongValue(a, `%q is no device; write a name, or the beginning of one and "*" as its last character.`, name)
		}
		out[name] = f
	}
	return out, nil
}}
