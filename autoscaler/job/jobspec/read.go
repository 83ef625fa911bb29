// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// Key is the name of Kolo's block inside policy { }.
const Key = "kolo"

// Asks reports whether any group of the job contains a kolo block, even if it is invalid
// or disabled. Kolo does not change jobs without such a block, and reports no problems
// of them.
func Asks(job *api.Job) bool { return slices.ContainsFunc(job.TaskGroups, GroupAsks) }

// GroupAsks reports whether a group contains a kolo block, valid or not, enabled or not.
func GroupAsks(g *api.TaskGroup) bool {
	if g.Scaling == nil {
		return false
	}
	_, ok := g.Scaling.Policy[Key]
	return ok
}

// Enabled reports whether scaling.enabled is on for at least one group with a kolo
// block. Nomad itself turns it off when a job is stopped.
func Enabled(job *api.Job) bool { return slices.ContainsFunc(job.TaskGroups, enabled) }

func enabled(g *api.TaskGroup) bool { return GroupAsks(g) && deref(g.Scaling.Enabled, true) }

// Read returns the job's Spec, or all its problems. A problem names its field like this:
// group "workers": scaling.policy.kolo.min. Both results are nil if all groups have
// scaling.enabled = false.
func Read(job *api.Job) (*Spec, problem.List) {
	r := &reader{job: job}
	r.wholeJob()
	for _, g := range job.TaskGroups {
		if !enabled(g) {
			continue
		}
		if len(r.spec.Groups) == maxGroups {
			r.problem("job", fmt.Sprintf("it has more than %d groups with a kolo block", maxGroups), "write fewer groups, or several jobs")
			break
		}
		r.group(g)
	}
	if len(r.spec.Groups) == 0 && len(r.problems) == 0 {
		return nil, nil
	}
	r.finish()
	if len(r.problems) > 0 {
		return nil, Bounded(r.problems)
	}
	return &r.spec, nil
}

// reader collects one job's Spec and problems.
type reader struct {
	job      *api.Job
	spec     Spec
	kolo     block // job-wide keys, merged over the groups
	problems problem.List
}

func (r *reader) problem(where, text, remedy string) { r.problems.Add(where, nil, text, remedy) }

// wholeJob checks the properties of the job as a whole.
func (r *reader) wholeJob() {
	if !Enabled(r.job) {
		return
	}
	switch t := deref(r.job.Type, api.JobTypeService); t {
	case api.JobTypeBatch, api.JobTypeService:
	default:
		r.problem("job.type", fmt.Sprintf("a %s job has one allocation per node and cannot be scaled", t),
			`write type = "batch"`)
	}
	if r.job.IsPeriodic() {
		r.problem("job.periodic", "the periodic job itself runs nothing; only its children do",
			"register the training job itself")
	}
	if r.job.IsParameterized() && !r.job.Dispatched {
		r.problem("job.parameterized", "the parameterized job itself runs nothing; only dispatched jobs do",
			"set scaling.enabled = false there, or register the training job itself")
	}
	if r.job.Multiregion != nil && len(r.job.Multiregion.Regions) > 0 {
		r.problem("job.multiregion", "one autoscaler acts in one region",
			"register one job per region")
	}
}

func (r *reader) group(g *api.TaskGroup) {
	name := deref(g.Name, "")
	where := fmt.Sprintf("group %q: scaling", name)
	s := g.Scaling

	if s.Type != "" && s.Type != api.ScalingPolicyTypeHorizontal {
		r.problem(where+".type", fmt.Sprintf("%q cannot be scaled by count", s.Type), `leave it out or write type = "horizontal"`)
	}
	if _, ok := s.Policy["check"]; ok {
		r.problem(where+".policy", "check blocks belong to another autoscaler, and two must not scale one group",
			"remove the check blocks, or the kolo block")
	}

	if len(name) > maxName {
		r.problem(fmt.Sprintf("group %q", name), fmt.Sprintf("its name has %d bytes, more than %d", len(name), maxName), "give it a shorter name")
	}
	out := Group{Name: name}
	out.Min, out.Max = r.limits(g, where)
	r.worker(g, &out)

	b, problems := decode(where+".policy."+Key, s.Policy[Key])
	r.problems = append(r.problems, problems...)
	r.problems = append(r.problems, r.kolo.merge(b)...)

	if u := g.Update; u != nil && deref(r.job.Type, "") == api.JobTypeService && deref(u.MaxParallel, 1) > 0 {
		r.problem(fmt.Sprintf("group %q: update", name), "each change of the count would start a deployment, which blocks the next change until it is healthy",
			"write update { max_parallel = 0 }")
	}
	r.spec.Groups = append(r.spec.Groups, out)
}

// withoutDevice reports a group that is in no gang and whose workers would hold no slot,
// although the workers of another group hold devices.
func (r *reader) withoutDevice(g, other Group) {
	r.problem(fmt.Sprintf("group %q", g.Name), fmt.Sprintf("requests no device, but group %q requests %q, so its workers would hold no slot", other.Name, other.Device),
		fmt.Sprintf("add a device block; or remove the kolo block and set a fixed count, so that only %q is scaled; or write gang and ratio to scale both groups together", other.Name))
}

// finish sets defaults and makes the checks that involve the whole job.
func (r *reader) finish() {
	s, b := &r.spec, &r.kolo
	r.gang()
	sumMin, sumMax := 0, s.most()
	s.CanWait = true
	for _, g := range s.Groups {
		sumMin += g.Min
		s.CanWait = s.CanWait && g.Min == 0
		switch first := s.Holder(); {
		case g.Device == "" && b.gang.set: // its workers hold no slot
		case g.Device == "" && first.Device != "":
			r.withoutDevice(g, *first)
		case g.Device != first.Device:
			r.problem(fmt.Sprintf("group %q", g.Name), fmt.Sprintf("requests device %q, but group %q requests %q", g.Device, first.Name, first.Device),
				"use one device type for all elastic groups of a job")
		case g.Devices != first.Devices && s.Ratio == nil:
			r.problem(fmt.Sprintf("group %q", g.Name), fmt.Sprintf("holds %d devices per worker, but group %q holds %d", g.Devices, first.Name, first.Devices),
				"use the same number of devices per worker in all elastic groups of a job")
		}
	}
	if sumMax > MaxWorkers && len(s.Groups) > 1 {
		r.problem("job", fmt.Sprintf("%d workers of all groups are above %d", sumMax, MaxWorkers), fmt.Sprintf("write scaling.max so that they add up to at most %d", MaxWorkers))
	}
	s.Spare = int(b.spare.value)
	most, mostName := sumMax, "scaling.max of all groups"
	if s.Spare > 0 {
		most, mostName = sumMax-s.Spare, "scaling.max of all groups without kolo.spare"
		r.within(b.spare.where, s.Spare, 1, max(0, sumMax-max(s.Unit(), sumMin)), "what scaling.max of all groups leaves above the smallest size")
	}
	s.Max = min(most, MaxWorkers)
	if b.max.set {
		s.Max = int(b.max.value)
		r.within(b.max.where, s.Max, max(s.Unit(), sumMin), most, mostName)
	}
	s.Min = max(s.Unit(), sumMin)
	if b.min.set {
		s.Min = int(b.min.value)
		r.within(b.min.where, s.Min, max(s.Unit(), sumMin), s.Max, "the largest size")
		if s.Min > sumMin && !s.CanWait {
			r.problem(b.min.where, fmt.Sprintf("the job would wait for %d workers but scaling.min = %d starts it with fewer", s.Min, sumMin),
				"write scaling { min = 0 } so that it can wait with none, or remove kolo.min")
		}
	}
	s.Sizes = r.sizes()
	s.Preferred = s.Max
	if b.preferred.set {
		s.Preferred = int(b.preferred.value)
		r.within(b.preferred.where, s.Preferred, s.Min, s.Max, "the largest size")
	}
	s.Weight = b.weight.or(1)
	s.Priority = r.priority()
	s.TotalWork = b.totalWork.or(0)
	s.Queue = b.queue.or(deref(r.job.Namespace, "default"))
	s.Kind = cmp.Or(b.kind.or(deref(r.job.ParentID, "")), deref(r.job.ID, ""))
	s.Preemptible = b.preemptible.value
	if s.Preemptible && !s.CanWait {
		r.problem(b.preemptible.where, fmt.Sprintf("a suspended job has no workers, but scaling.min = %d", sumMin), "write scaling { min = 0 }")
	}
	r.spares()
	s.Deadline, s.DeadlineAfter = r.deadline()
	s.Locality, s.Level = r.locality()
}

// locality returns how close together the job's workers must be.
func (r *reader) locality() (Locality, string) {
	how, level := r.kolo.locality, r.kolo.level
	out := Locality(how.or(string(Prefer)))
	switch {
	case out == Require && !level.set:
		r.problem(how.where, "it names no level that its workers must not cross", `write level = "meta.rack", or another level of the node pool's topology`)
	case out == Blind && level.set:
		r.problem(level.where, fmt.Sprintf("it contradicts %s = %q", how.where, how.value), `remove it, or write locality = "prefer" or "require"`)
	}
	return out, level.value
}

func (r *reader) within(where string, v, low, high int, highName string) {
	if v < low {
		r.problem(where, fmt.Sprintf("%d is below %d", v, low), fmt.Sprintf("write at least %d", low))
	} else if v > high {
		r.problem(where, fmt.Sprintf("%d is above %s, %d", v, highName, high), fmt.Sprintf("write at most %d", high))
	}
}

// priority returns the priority in the kolo block, or else the job's priority in
// Nomad.
func (r *reader) priority() int {
	if p := r.kolo.priority; p.set {
		return int(p.value)
	}
	p := deref(r.job.Priority, api.JobDefaultPriority)
	if p > maxPriority {
		r.problem("job.priority", fmt.Sprintf("%d is above %d", p, maxPriority), "write a priority that Nomad accepts")
	}
	return max(1, p)
}

// sizes converts sizes, step or powers_of_two to the set of allowed totals.
func (r *reader) sizes() sizes.Set {
	s, b := &r.spec, &r.kolo
	var given []string
	for _, k := range []struct {
		name string
		set  bool
	}{{"sizes", b.sizes.set}, {"step", b.step.set}, {"powers_of_two", b.powers.value}} {
		if k.set {
			given = append(given, k.name)
		}
	}
	if len(given) > 1 {
		r.problem(b.where, strings.Join(given, " and ")+" contradict each other", "keep one of them")
		return sizes.Set{}
	}
	var out sizes.Set
	switch {
	case s.Ratio != nil:
		out = r.inUnits()
		for _, n := range out.Listed() {
			r.within(cmp.Or(b.sizes.where, b.powers.where), n, s.Min, s.Max, "the largest size")
		}
	case b.sizes.set:
		out = sizes.List(b.sizes.value...)
		for _, n := range out.Listed() {
			r.within(b.sizes.where, n, s.Min, s.Max, "the largest size")
		}
	case b.step.set:
		out = sizes.Every(s.Min, int(b.step.value))
	case b.powers.value:
		out = sizes.Powers(s.Min, s.Max)
		if out.All() {
			r.problem(b.powers.where, fmt.Sprintf("there is no power of two from %d to %d", s.Min, s.Max), "widen the range, or remove powers_of_two")
		}
	}
	if low, high := out.Above(s.Min-1), out.AtMost(s.Max); low > 0 && low <= high {
		s.Min, s.Max = low, high
	}
	return out
}

// deadline reads a time in RFC 3339 format, or a duration that begins with the
// job's submission.
func (r *reader) deadline() (time.Time, time.Duration) {
	d := r.kolo.deadline
	if !d.set {
		return time.Time{}, 0
	}
	if t, err := time.Parse(time.RFC3339, d.value); err == nil {
		if t.Before(earliest) || t.After(latest) {
			r.problem(d.where, fmt.Sprintf("%s is not within %d to %d", d.value, earliest.Year(), latest.Year()-1), "write the time at which the training is to be complete")
			return time.Time{}, 0
		}
		return t, 0
	}
	after, err := time.ParseDuration(d.value)
	if err == nil && after > maxAhead {
		r.problem(d.where, fmt.Sprintf("%s is not within %d years", d.value, int(maxAhead.Hours()/24/365)), "write the time at which the training is to be complete")
		return time.Time{}, 0
	}
	if err != nil || after <= 0 {
		r.problem(d.where, fmt.Sprintf("%q is neither a time nor a duration", d.value),
			`write deadline = "2027-01-31T18:00:00Z", or deadline = "6h" to count from the submission`)
		return time.Time{}, 0
	}
	return time.Time{}, after
}

func deref[T any](p *T, or T) T {
	if p == nil {
		return or
	}
	return *p
}
