// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"math"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
)

// Group names the sets of jobs that a job's attained service is compared with. Each of them is
// a key of History.Kinds.
type Group struct {
	Kind      string // a KindKey
	Namespace string // for all jobs of the namespace
	Pool      string // for all jobs of the node pool
}

// GroupOf returns the Group of a job of a kind (a KindKey) in a pool. The keys cannot collide,
// because kinds and namespaces have non-empty names.
func GroupOf(kind, pool string) Group {
	return Group{Kind: kind, Namespace: Namespace(kind) + "/", Pool: "/" + pool}
}

// Keys returns the keys of the group, except that of the kind.
func (g Group) Keys() []string { return []string{g.Namespace, g.Pool} }

// LearnService records the attained service of a job that has just completed, for each set of
// its group. As in LearnLength, a kind that is neither named nor known learns nothing.
func (h *History) LearnService(g Group, named bool, j *Job, now time.Time) {
	service := math.Ceil(min(j.Attained, maxSeconds))
	if !(service > 0) {
		return
	}
	if named || h.Kinds[g.Kind] != nil {
		h.kind(g.Kind, now).addService(service, length.KindLimit)
	}
	for _, key := range g.Keys() {
		h.kind(key, now).addService(service, length.Limit)
	}
}

func (k *Kind) addService(service float64, limit int) {
	k.Services, k.alike = length.Append(k.Services, service, limit), nil
}

// Alike describes the attained service of completed jobs that are similar to a job of a group.
func (h *History) Alike(g Group) length.Sample {
	return length.Best(h.Kinds[g.Kind].sample(length.Kind), h.Kinds[g.Namespace].sample(length.Namespace), h.Kinds[g.Pool].sample(length.Pool))
}

// sample describes the attained service of the jobs of a kind. k may be nil.
func (k *Kind) sample(origin length.Origin) length.Sample {
	if k == nil {
		return length.Sample{}
	}
	if k.alike == nil {
		s := length.NewSample(origin, k.Services)
		k.alike = &s
	}
	return *k.alike
}
