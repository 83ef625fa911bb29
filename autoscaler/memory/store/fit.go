// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// large is more bytes of JSON than a job with ordinary group names takes.
const large = 16 << 10

// fit encodes a shard and omits as little as necessary for it to fit. dropped is the
// number of omitted jobs and of entries that cannot be encoded. Entries of one namespace
// displace those of others as little as possible.
func (s *shard) fit() (text string, dropped int, err error) {
	if text, err = s.encode(); err != nil {
		if dropped = s.dropUnencodable(); dropped == 0 {
			return "", 0, err
		}
		text, err = s.encode()
	}
	jobs := len(s.Jobs)
	for _, next := range []func() []entry{
		s.largeJobs,
		s.fairKinds, // can be learned again
		func() []entry { s.dropPlaced(); return nil },
		s.fairJobs,
		s.fairAccounts,
	} {
		if err != nil || len(text) <= shardSize {
			break
		}
		text, err = s.leaveOut(next())
	}
	return text, dropped + jobs - len(s.Jobs), err
}

// entry is a job, a kind or a queue's account of a shard.
type entry struct {
	namespace string // of an account, the pool
	name      string // in the shard
	size      int    // bytes of JSON
	sum       int    // of this one and those of its namespace that are smaller
}

// leaveOut omits entries from the first on, as many as necessary for the shard to fit.
func (s *shard) leaveOut(entries []entry) (text string, err error) {
	all := *s
	n := sort.Search(len(entries), func(n int) bool {
		fits, failed := all.without(entries[:n]).encode()
		err = errors.Join(err, failed)
		return len(fits) <= shardSize
	})
	if err != nil {
		return "", err
	}
	*s = *all.without(entries[:n])
	return s.encode()
}

func (s *shard) without(entries []entry) *shard {
	out := &shard{States: s.States, Kinds: maps.Clone(s.Kinds)}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.name] = true
		delete(out.Kinds, e.name)
	}
	out.Queues = s.accountsWithout(names)
	for _, j := range s.Jobs {
		if !names[jobName(j.Key)] {
			out.Jobs = append(out.Jobs, j)
		}
	}
	return out
}

// largeJobs returns the jobs that are larger than large, the largest first.
func (s *shard) largeJobs() []entry {
	entries := slices.DeleteFunc(s.jobs(), func(e entry) bool { return e.size <= large })
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(b.size-a.size, strings.Compare(a.name, b.name)) })
	return entries
}

func (s *shard) fairJobs() []entry { return fair(s.jobs()) }

func (s *shard) fairKinds() []entry {
	var entries []entry
	for name, k := range s.Kinds {
		entries = append(entries, entry{namespace: history.Namespace(name), name: name, size: size(k)})
	}
	return fair(entries)
}

func (s *shard) jobs() []entry {
	var entries []entry
	for _, j := range s.Jobs {
		entries = append(entries, entry{namespace: j.Key.Namespace, name: jobName(j.Key), size: size(j)})
	}
	return entries
}

func size(v any) int {
	text, _ := json.Marshal(v) // entries that cannot be encoded are left out already
	return len(text)
}

// fair sorts entries by the order in which they are omitted: the namespace with the most
// bytes loses its largest entry first.
func fair(entries []entry) []entry {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.size-b.size, strings.Compare(a.name, b.name)) })
	sums := map[string]int{}
	for i := range entries {
		e := &entries[i]
		sums[e.namespace] += e.size
		e.sum = sums[e.namespace]
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(b.sum-a.sum, strings.Compare(a.name, b.name)) })
	return entries
}

// dropPlaced omits the step times by place, which can be learned again.
func (s *shard) dropPlaced() {
	for i := range s.Jobs {
		if len(s.Jobs[i].Job.Placed) > 0 {
			without := *s.Jobs[i].Job // the history keeps it
			without.Placed = nil
			s.Jobs[i].Job = &without
		}
	}
}

// dropUnencodable omits entries that cannot be encoded, so that the rest is not lost, and
// returns their number.
func (s *shard) dropUnencodable() int {
	fails := func(v any) bool { _, err := json.Marshal(v); return err != nil }
	before := len(s.Jobs) + len(s.Kinds)
	s.Jobs = slices.DeleteFunc(s.Jobs, func(j savedJob) bool { return fails(j) })
	maps.DeleteFunc(s.Kinds, func(_ string, k *history.Kind) bool { return fails(k) })
	return before - len(s.Jobs) - len(s.Kinds) + s.dropUnencodableAccounts()
}
