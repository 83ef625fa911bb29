// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
)

// A Nomad variable holds 64 KiB. Jobs are distributed over shards by name, so that ten
// thousand fit and a change of one job does not rewrite all. The states of policies are
// saved separately, in pieces, so that they take no space from jobs.
const (
	shards    = 64
	shardSize = 60 << 10
	pieces    = 32 // at most

	historyPath = "kolo/history/"
	statesPath  = historyPath + "states/"
)

func shardPath(i int) string { return fmt.Sprintf("%s%02d", historyPath, i) }

func shardOf(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % shards)
}

// shard is the content of one variable.
type shard struct {
	Jobs   []savedJob               `json:"jobs,omitempty"`
	States map[string][]byte        `json:"states,omitempty"`
	Kinds  map[string]*history.Kind `json:"kinds,omitempty"`
	Queues map[string]ledger.Ledger `json:"queues,omitempty"` // by node pool
}

type savedJob struct {
	Key identity.JobKey `json:"key"`
	Job *history.Job    `json:"record"`
}

// Encode returns the snapshot of a history. It omits and counts entries that do not fit.
func Encode(h *history.History) (*Snapshot, error) {
	out := &Snapshot{texts: map[string]string{}}
	states, err := (&shard{States: h.States}).encode()
	if err != nil {
		return out, err
	}
	if len(states) <= pieces*shardSize {
		for i := 0; len(states) > 0; i++ {
			n := min(shardSize, len(states))
			out.texts[fmt.Sprintf("%s%02d", statesPath, i)], states = states[:n], states[n:]
		}
	} else {
		out.Dropped += len(h.States) // a policy asked for too much
	}
	for i, s := range split(h) {
		text, dropped, err := s.fit()
		out.Dropped += dropped
		if err != nil {
			return out, err
		}
		if text != "" {
			out.texts[shardPath(i)] = text
		}
	}
	return out, nil
}

// jobName returns a job's name in a shard. It never equals the name of a kind, because
// namespaces contain no NUL.
func jobName(k identity.JobKey) string { return k.Namespace + "\x00" + k.ID }

// split distributes jobs, kinds and accounts of queues over the shards, in a stable order.
func split(h *history.History) (all [shards]shard) {
	for k, j := range h.Jobs {
		s := &all[shardOf(jobName(k))]
		s.Jobs = append(s.Jobs, savedJob{k, j})
	}
	for i := range all {
		slices.SortFunc(all[i].Jobs, func(a, b savedJob) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	}
	for name, k := range h.Kinds {
		s := &all[shardOf(name)]
		if s.Kinds == nil {
			s.Kinds = map[string]*history.Kind{}
		}
		s.Kinds[name] = k
	}
	addAccounts(&all, h)
	return all
}

func (s *shard) encode() (string, error) {
	if len(s.Jobs) == 0 && len(s.States) == 0 && len(s.Kinds) == 0 && len(s.Queues) == 0 {
		return "", nil
	}
	return pack(s)
}

// decode returns the history that was saved as these texts, by path. It omits parts that
// cannot be decoded and reports them as lost.
func decode(texts map[string]string) (h *history.History, lost error) {
	h = history.New()
	var states strings.Builder
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasPrefix(path, statesPath) {
			states.WriteString(texts[path])
		} else {
			lost = errors.Join(lost, decodeShard(h, texts[path]))
		}
	}
	return h, errors.Join(lost, decodeShard(h, states.String()))
}

// decodeShard adds the content of a shard to a history.
func decodeShard(h *history.History, text string) error {
	if text == "" {
		return nil
	}
	var s shard
	if err := unpack(text, &s); err != nil {
		return fmt.Errorf("the history: %w", err)
	}
	for _, j := range s.Jobs {
		if j.Job != nil {
			h.Jobs[j.Key] = j.Job
		}
	}
	for name, k := range s.Kinds {
		if k != nil {
			h.Kinds[name] = k
		}
	}
	maps.Copy(h.States, s.States)
	s.loadAccounts(h)
	return nil
}
