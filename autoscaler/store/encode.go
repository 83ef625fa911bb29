// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/history"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// A Nomad variable holds 64 KiB. Jobs are spread over shards by their name,
// so that ten thousand fit, and one that changes does not rewrite all. What
// policies asked to be given back is cut into pieces, so that it takes no job's
// place.
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
}

type savedJob struct {
	Key planner.JobKey `json:"key"`
	Job *history.Job   `json:"record"`
}

// Encode makes the snapshot of a history; what does not fit is left out and
// counted.
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

// split spreads jobs and kinds over the shards, in an order that stays.
func split(h *history.History) (all [shards]shard) {
	for k, j := range h.Jobs {
		s := &all[shardOf(k.Namespace+"\x00"+k.ID)]
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
	return all
}

// fit encodes a shard, and leaves out as much as it takes to fit; dropped is how
// much that is.
func (s *shard) fit() (text string, dropped int, err error) {
	for {
		text, err = s.encode()
		switch {
		case err != nil:
			n := s.dropUnencodable()
			if n == 0 {
				return "", dropped, err
			}
			dropped += n
		case len(text) <= shardSize:
			return text, dropped, nil
		case s.Kinds != nil:
			s.Kinds = nil // can be learned again
		case s.dropPlaced():
		default:
			half := len(s.Jobs) / 2
			dropped += len(s.Jobs) - half
			s.Jobs = s.Jobs[:half]
		}
	}
}

// dropPlaced leaves out what jobs know of where they are slow, which can be learned
// again; it reports whether there was any.
func (s *shard) dropPlaced() bool {
	any := false
	for i := range s.Jobs {
		if len(s.Jobs[i].Job.Placed) > 0 {
			any = true
			without := *s.Jobs[i].Job // the history keeps it
			without.Placed = nil
			s.Jobs[i].Job = &without
		}
	}
	return any
}

// dropUnencodable leaves out what cannot be encoded, and returns how much that
// is: the rest is not to be lost for it.
func (s *shard) dropUnencodable() int {
	fails := func(v any) bool { _, err := json.Marshal(v); return err != nil }
	before := len(s.Jobs) + len(s.Kinds)
	s.Jobs = slices.DeleteFunc(s.Jobs, func(j savedJob) bool { return fails(j) })
	maps.DeleteFunc(s.Kinds, func(_ string, k *history.Kind) bool { return fails(k) })
	return before - len(s.Jobs) - len(s.Kinds)
}

func (s *shard) encode() (string, error) {
	if len(s.Jobs) == 0 && len(s.States) == 0 && len(s.Kinds) == 0 {
		return "", nil
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := json.NewEncoder(z).Encode(s); err != nil {
		return "", fmt.Errorf("encoding the history: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("encoding the history: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

// decode is the history that was saved, by path. What makes no sense is left out
// and reported as lost.
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

// decodeShard adds what a shard holds.
func decodeShard(h *history.History, text string) error {
	if text == "" {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("decoding the history: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("decoding the history: %w", err)
	}
	var s shard
	if err := json.NewDecoder(io.LimitReader(z, 64<<20)).Decode(&s); err != nil {
		return fmt.Errorf("decoding the history: %w", err)
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
	return nil
}
