// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// Values of a pool's share.
const (
	ShareNone       = "none"       // the pool is not divided
	ShareNamespaces = "namespaces" // each namespace is a queue
)

// dividing are the keys of a queue that divide its pool.
var dividing = []string{"guarantee", "limit", "weight", "max_job", "max_jobs", "max_time", "max_time_action", "reclaim_after", "order", "half_life"}

// queueReader reads the queue blocks of a pool.
type queueReader struct {
	config *Config
	pool   *Pool
	ranges map[[2]string]hcl.Range // by queue and key; "" is the block
	first  *hcl.Range              // of what divides the pool
}

// queues reads the queue blocks of a pool, and divides it where they, or share, say so.
func (c *Config) queues(p *Pool, blocks hcl.Blocks, share *hcl.Attribute) hcl.Diagnostics {
	r := &queueReader{config: c, pool: p, ranges: map[[2]string]hcl.Range{}}
	tree, diags := r.all(blocks, nil)
	switch {
	case diags.HasErrors():
		return diags
	case r.first != nil && share != nil && p.Share == ShareNone:
		return hcl.Diagnostics{wrong(*r.first, "Contradiction", `this divides the pool, but share = "none" leaves it undivided; remove one of the two.`)}
	case r.first == nil && (p.Share == ShareNone || p.Share == "" && (len(blocks) > 0 || p.sharesByPolicy())):
		p.Tree = nil
		return diags
	}
	var problems []queue.Problem
	p.Tree, problems = queue.New(tree)
	for _, problem := range problems {
		diags = append(diags, r.diagnostic(problem))
	}
	if _, ok := p.Queues[queue.Any]; !ok && p.Tree != nil {
		p.Tree = p.Tree.WithHalfLife(p.HalfLife.Seconds())
	}
	return diags
}

// namespaces returns the tree in which each namespace is a queue of weight 1.
func namespaces() *queue.Tree {
	tree, _ := queue.New(nil)
	return tree
}

// sharesByPolicy reports whether the pool's policy divides slots between tenants itself,
// or may do so because it is external.
func (p *Pool) sharesByPolicy() bool {
	_, builtIn := builtin.Policies.Describe(p.Policy)
	return !builtIn || p.Policy == "weighted-fair"
}

// reservations reads the reservation blocks of a pool.
func (p *Pool) reservations(blocks hcl.Blocks) (diags hcl.Diagnostics) {
	if len(blocks) == 0 {
		return nil
	}
	if p.Tree == nil {
		return hcl.Diagnostics{wrong(blocks[0].DefRange, "Nothing to reserve for",
			"A reservation is for a queue, and this pool is not divided between queues; write a queue block with a weight.")}
	}
	var all []queue.Reservation
	ranges := map[[2]string]hcl.Range{}
	for _, b := range blocks {
		r, more := readReservation(b, ranges)
		all, diags = append(all, r), append(diags, more...)
	}
	if diags.HasErrors() {
		return diags
	}
	tree, problems := p.Tree.With(all)
	for _, problem := range problems {
		diags = append(diags, wrong(ranges[[2]string{problem.Reservation, problem.Setting}],
			fmt.Sprintf("Wrong value for %s of reservation %q", problem.Setting, problem.Reservation), problem.Text+"; "+problem.Remedy+"."))
	}
	p.Tree = tree
	return diags
}

// readReservation reads a reservation block, and notes its lines by name and key.
func readReservation(b *hcl.Block, ranges map[[2]string]hcl.Range) (queue.Reservation, hcl.Diagnostics) {
	r := queue.Reservation{Name: b.Labels[0]}
	var from, until time.Time
	table := reservationSettings(&r, &from, &until)
	content, diags := table.read(b.Body)
	if _, twice := ranges[[2]string{r.Name, ""}]; twice {
		return r, append(diags, wrong(b.DefRange, "Repeated block", fmt.Sprintf("reservation %q was already written for this pool; keep one of the two.", r.Name)))
	}
	ranges[[2]string{r.Name, ""}] = b.DefRange
	for _, key := range table.names() {
		a := content.Attributes[key]
		if a == nil {
			diags = append(diags, wrong(b.DefRange, "Missing argument", fmt.Sprintf("reservation %q has no %s; write %s = ….", r.Name, key, key)))
			continue
		}
		ranges[[2]string{r.Name, key}] = a.Range
	}
	r.From, r.Until = float64(from.Unix()), float64(until.Unix())
	return r, diags
}

func reservationSettings(r *queue.Reservation, from, until *time.Time) settings {
	return settings{
		define("queue", &r.Queue, "", text, "Queue whose guarantee is raised.").or("required"),
		define("slots", &r.Slots, 0, whole(1, queue.MostSlots), "Slots that are added to the guarantee.").or("required"),
		define("from", from, time.Time{}, moment, "When the reservation begins.").or("required"),
		define("until", until, time.Time{}, moment, "When it ends.").or("required"),
	}
}

// diagnostic returns a problem together with the lines that it is about.
func (r *queueReader) diagnostic(p queue.Problem) *hcl.Diagnostic {
	at, ok := r.ranges[[2]string{p.Queue, p.Setting}]
	if !ok {
		at = r.ranges[[2]string{p.Queue, ""}]
	}
	summary := fmt.Sprintf("Unusable queue %q", p.Queue)
	if p.Setting != "" {
		summary = fmt.Sprintf("Wrong value for %s of queue %q", p.Setting, p.Queue)
	}
	return wrong(at, summary, p.Text+"; "+p.Remedy+".")
}

// all reads queue blocks, and those inside them.
func (r *queueReader) all(blocks hcl.Blocks, parent *Queue) (out []queue.Queue, diags hcl.Diagnostics) {
	for _, b := range blocks {
		q, more := r.queue(b, parent)
		out, diags = append(out, q), append(diags, more...)
	}
	return out, diags
}

func (r *queueReader) queue(b *hcl.Block, parent *Queue) (queue.Queue, hcl.Diagnostics) {
	q := Queue{Name: b.Labels[0]}
	content, diags := q.settings().read(b.Body, hcl.BlockHeaderSchema{Type: "queue", LabelNames: []string{"name"}},
		hcl.BlockHeaderSchema{Type: "policy", LabelNames: []string{"name"}}, hcl.BlockHeaderSchema{Type: "per_namespace"}, hcl.BlockHeaderSchema{Type: "budget"})
	switch _, twice := r.pool.Queues[q.Name]; {
	case q.Name == "" || len(q.Name) > longestQueue:
		return queue.Queue{}, append(diags, wrong(b.LabelRanges[0], "Unusable queue",
			fmt.Sprintf(`A queue has a name of 1 to %d bytes; write queue "*" for those without a block of their own.`, longestQueue)))
	case twice:
		return queue.Queue{}, append(diags, wrong(b.DefRange, "Repeated block",
			fmt.Sprintf("queue %q was already written for this pool; keep one of the two, or give one another name.", q.Name)))
	}
	r.note(b, content)
	q.inheritHalfLife(content.Attributes["half_life"] != nil, r.pool, parent)
	var more hcl.Diagnostics
	q.Budget, more = r.budget(q.Name, content.Blocks.OfType("budget"))
	diags = append(diags, more...)
	own := q.Namespaces
	if parent != nil {
		q.inherit(parent)
	}
	for i, pb := range content.Blocks.OfType("policy") {
		if i > 0 {
			diags = append(diags, wrong(pb.DefRange, "Repeated block", "A queue has one policy; remove all but one."))
			break
		}
		q.Policy, q.Options = pb.Labels[0], pb.Body
		diags = append(diags, r.config.checkPolicy(pb)...)
	}
	for i, nb := range content.Blocks.OfType("per_namespace") {
		if i > 0 {
			diags = append(diags, wrong(nb.DefRange, "Repeated block", "A queue has one per_namespace block; remove all but one."))
			break
		}
		q.PerNamespace = &queue.Caps{}
		r.ranges[[2]string{q.Name, "per_namespace"}] = nb.DefRange
		_, more := capSettings(q.PerNamespace).read(nb.Body)
		diags = append(diags, more...)
	}
	if r.pool.Queues == nil {
		r.pool.Queues = map[string]Queue{}
	}
	r.pool.Queues[q.Name] = q
	inside, more := r.all(content.Blocks.OfType("queue"), &q)
	weight := q.Weight
	if weight == 0 {
		weight = 1
	}
	return queue.Queue{
		Name: q.Name, Namespaces: own, Guarantee: q.Guarantee, Limit: q.Limit, Weight: int(math.Round(weight * queue.WeightUnit)),
		MaxJob: q.MaxJob, MaxJobs: q.MaxJobs, MaxTime: int(q.MaxTime.Seconds()), Stops: q.MaxTimeAction == MaxTimeStop,
		ReclaimAfter: int(math.Ceil(q.ReclaimAfter.Seconds())), Order: queue.Order(q.Order),
		PerNamespace: q.PerNamespace, Queues: inside,
		HalfLife: q.HalfLife.Seconds(), Budget: q.Budget,
	}, append(diags, more...)
}

// inherit takes over what a queue inside another has of it.
func (q *Queue) inherit(parent *Queue) {
	q.Parent = parent.Name
	if q.Namespaces == nil {
		q.Namespaces = parent.Namespaces
	}
	if q.MaxPriority == 0 || parent.MaxPriority > 0 && parent.MaxPriority < q.MaxPriority {
		q.MaxPriority = parent.MaxPriority
	}
	if q.MaxWeight == 0 || parent.MaxWeight > 0 && parent.MaxWeight < q.MaxWeight {
		q.MaxWeight = parent.MaxWeight
	}
}

// note keeps the lines of a queue for diagnostics, and the first that divides the pool.
func (r *queueReader) note(b *hcl.Block, content *hcl.BodyContent) {
	r.ranges[[2]string{b.Labels[0], ""}] = b.DefRange
	for name, a := range content.Attributes {
		r.ranges[[2]string{b.Labels[0], name}] = a.Range
	}
	divides := content.Blocks
	for _, key := range dividing {
		if a := content.Attributes[key]; a != nil {
			divides = append(slices.Clone(divides), &hcl.Block{DefRange: a.Range})
		}
	}
	if len(divides) > 0 && r.first == nil {
		r.first = &divides[0].DefRange
	}
}
