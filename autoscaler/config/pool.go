// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// AnyPool is the label of the pool block that stands for every node pool
// without a block of its own.
const AnyPool = "*"

// PackNode is the value of pack that prefers to empty nodes.
const PackNode = "node"

// The values of idle_action in a pool block.
const (
	IdleNotify  = "notify"
	IdleShrink  = "shrink"
	IdleSuspend = "suspend"
)

// Pool is the configuration of a node pool: its policy, and how its capacity is
// counted.
type Pool struct {
	Name    string
	Policy  string
	Options hcl.Body // of the policy; nil is none

	// Device is the device type that slots are counted in ("gpu",
	// "nvidia/gpu"). A pool with CPUSlot has no devices.
	Device string
	// CPUSlot, in MHz, makes slots of CPU shares for jobs without devices.
	CPUSlot int

	// Pack is PackNode if nodes are to become empty, so that they can be removed.
	Pack string

	// Levels are the levels of the pool's topology, outermost first, including the
	// node.
	Levels []topology.Level
	// Aware is set if the operator wrote the levels: workers are then placed by
	// them.
	Aware bool
	// IdleAfter is the time without a step, or without use of its GPUs, after which a job is
	// idle. With 0, no job is idle. IdleAction states what is done to an idle job.
	IdleAfter  time.Duration
	IdleAction string
	// AdaptBatch permits jobs to adapt their batch.
	AdaptBatch bool
	// MaxMigrations is how often the workers of one job may move within an hour.
	MaxMigrations int

	// SpareSlots is how many slots the pool lends to jobs that train, for spares that they did
	// not ask for.
	SpareSlots int

	// Queues holds the operator's rules by queue: nested queues, too, and the rule of "*".
	Queues map[string]Queue
	// Share is ShareNamespaces or ShareNone; "" is the default.
	Share string
	// HalfLife applies to the past use of queues without a half-life of their own. With 0,
	// the past does not count.
	HalfLife time.Duration
	// SlotCost holds the costs of slots by type of device, or by pattern; see CostOf.
	SlotCost map[string]float64
	// Tree describes how the pool is divided between its queues; nil if it is not divided.
	Tree *queue.Tree
}

func (p *Pool) settings() settings {
	return settings{
		define("device", &p.Device, "gpu", text, "Device type that slots are counted in, such as `gpu` or `nvidia/gpu`."),
		define("cpu_slot", &p.CPUSlot, 0, whole(1, 1e6), "MHz of CPU per slot, in place of devices.").or("none"),
		define("pack", &p.Pack, "none", oneOf("none", PackNode), "`node` keeps nodes free of workers where there is a choice."),
		define("idle_after", &p.IdleAfter, 0, duration("1m", "168h"), "Time without a step, or without use of its GPUs, after which a job that holds slots is [idle](#idle-jobs).").or("never"),
		define("idle_action", &p.IdleAction, IdleNotify, oneOf(IdleNotify, IdleShrink, IdleSuspend), "Action on an [idle](#idle-jobs) job. `notify`: it is reported. `shrink`: it also shrinks to its minimum. `suspend`: it is suspended if it is `preemptible`, and otherwise shrinks."),
		define("adapt_batch", &p.AdaptBatch, true, boolean, "With `false`, jobs that [adapt their batch](../howto/let-the-batch-adapt.md#what-an-operator-decides) keep their initial one."),
		define("share", &p.Share, "", oneOf(ShareNone, ShareNamespaces), "With `namespaces`, each namespace that no `queue` block takes is a queue of weight 1. With `none`, the pool is [not divided](#other-pools).").or("[as below](#divided-pools)"),
		define("half_life", &p.HalfLife, 0, halfLife, "Time after which a borrowed slot-hour [counts half](#shares-over-time), for queues without their own `half_life`. With `0s`, the past does not count."),
		define("slot_cost", &p.SlotCost, nil, costs, "[Cost of a slot](#cost-of-slots) by device.").or("1 for all"),
	}
}

func newPool(name string) Pool {
	p := Pool{Name: name, Policy: builtin.Default, Levels: topology.Default(), Tree: namespaces()}
	p.settings().reset()
	return p
}

func (c *Config) pool(b *hcl.Block) hcl.Diagnostics {
	p := newPool(b.Labels[0])
	content, diags := p.settings().read(b.Body, hcl.BlockHeaderSchema{Type: "policy", LabelNames: []string{"name"}},
		hcl.BlockHeaderSchema{Type: "queue", LabelNames: []string{"name"}}, hcl.BlockHeaderSchema{Type: "topology"},
		hcl.BlockHeaderSchema{Type: "reservation", LabelNames: []string{"name"}}, hcl.BlockHeaderSchema{Type: "spares"})
	if p.Name == "all" {
		diags = append(diags, wrong(b.LabelRanges[0], "Unusable node pool",
			`"all" is Nomad's word for every node at once; write pool "*" for the pools without a block of their own.`))
	}
	if a := content.Attributes["cpu_slot"]; a != nil {
		if content.Attributes["device"] != nil {
			diags = append(diags, wrong(a.Range, "Contradiction",
				"device and cpu_slot exclude each other; slots are counted in one of them. Remove one."))
		}
		p.Device = ""
	}
	if a := content.Attributes["idle_action"]; a != nil && content.Attributes["idle_after"] == nil {
		diags = append(diags, wrong(a.Range, "Missing argument", `No job of this pool is ever idle; write idle_after = "30m", or remove idle_action.`))
	}
	for i, pb := range content.Blocks.OfType("policy") {
		if i > 0 {
			diags = append(diags, wrong(pb.DefRange, "Repeated block", "A pool has one policy; remove all but one."))
			break
		}
		p.Policy, p.Options = pb.Labels[0], pb.Body
		diags = append(diags, c.checkPolicy(pb)...)
	}
	diags = append(diags, c.queues(&p, content.Blocks.OfType("queue"), content.Attributes["share"])...)
	if !diags.HasErrors() {
		diags = append(diags, p.reservations(content.Blocks.OfType("reservation"))...)
	}
	diags = append(diags, p.topology(content.Blocks.OfType("topology"))...)
	diags = append(diags, p.spares(content.Blocks.OfType("spares"))...)
	c.Pools[p.Name] = p
	return diags
}

// sparesSettings returns the settings of a spares block.
func (p *Pool) sparesSettings() settings {
	return settings{
		define("slots", &p.SpareSlots, 0, whole(1, queue.MostSlots), "Slots that the pool [lends](#spares) to jobs that train, for spare hosts that they did not ask for.").or("required"),
	}
}

// spares reads a pool's spares blocks, of which there may be one.
func (p *Pool) spares(blocks hcl.Blocks) (diags hcl.Diagnostics) {
	for i, b := range blocks {
		if i > 0 {
			return append(diags, wrong(b.DefRange, "Repeated block", "A pool has one spares block; remove all but one."))
		}
		content, more := p.sparesSettings().read(b.Body)
		diags = append(diags, more...)
		if content.Attributes["slots"] == nil {
			diags = append(diags, wrong(b.DefRange, "Missing argument", "The spares block has no slots; write slots = 2, or remove the block."))
		}
	}
	return diags
}

// checkPolicy builds the policy once to find its mistakes. One that is not
// built in may come from policy_dir; that is known only when it runs.
func (c *Config) checkPolicy(b *hcl.Block) hcl.Diagnostics {
	name := b.Labels[0]
	if _, ok := builtin.Policies.Describe(name); !ok {
		if c.PolicyDir != "" {
			if attrs, _ := b.Body.JustAttributes(); len(attrs) > 0 {
				return hcl.Diagnostics{wrong(b.DefRange, "Options for an external policy",
					fmt.Sprintf("Policy %q is not built in, and options are not passed to programs in policy_dir; write policy %q {} and read settings in the program.", name, name))}
			}
			return nil
		}
		return hcl.Diagnostics{wrong(b.LabelRanges[0], "Unknown policy",
			fmt.Sprintf("There is no policy %q; write one of %s, or set policy_dir to where your own are.", name, strings.Join(builtin.Policies.Names(), ", ")))}
	}
	_, err := builtin.Policies.New(name, b.Body)
	var diags hcl.Diagnostics
	switch {
	case err == nil:
	case errors.As(err, &diags):
		return diags
	default:
		return hcl.Diagnostics{wrong(b.DefRange, "Policy", err.Error())}
	}
	return nil
}
