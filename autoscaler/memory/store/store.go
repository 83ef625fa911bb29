// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// Store saves texts in the variables of a namespace, and remembers the last saved ones.
type Store struct {
	client    *api.Client
	namespace string
	audit     *audit.Log

	mu    sync.Mutex // held during requests: saves keep their order
	saved map[string]string
}

// New returns a store that uses the variables of a namespace.
func New(client *api.Client, namespace string, log *audit.Log) *Store {
	return &Store{client: client, namespace: namespace, audit: log, saved: map[string]string{}}
}

const dataItem = "data"

// LoadHistory reads the saved history. It omits parts that cannot be decoded and returns
// them as lost. If err is set, there may be a saved history that could not be read.
func (s *Store) LoadHistory(ctx context.Context) (h *history.History, lost, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.saved) // another autoscaler may have led and saved meanwhile
	there, _, err := s.client.Variables().PrefixList(historyPath, (&api.QueryOptions{Namespace: s.namespace}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("listing the history: %w", err)
	}
	for _, m := range there {
		got, _, err := s.client.Variables().Peek(m.Path, (&api.QueryOptions{Namespace: s.namespace}).WithContext(ctx))
		if err != nil {
			return nil, nil, fmt.Errorf("reading variable %s: %w", m.Path, err)
		}
		if got != nil {
			s.saved[m.Path] = got.Items[dataItem]
		}
	}
	h, lost = decode(s.saved)
	return h, lost, nil
}

// Snapshot is an encoded history.
type Snapshot struct {
	texts   map[string]string // by path
	Dropped int               // jobs, kinds and states that do not fit
}

// SaveHistory saves a snapshot, and removes variables that it no longer contains. Before
// each write, it calls the function may, which must return an error once this autoscaler
// no longer leads.
func (s *Store) SaveHistory(ctx context.Context, snap *Snapshot, may func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := slices.Collect(maps.Keys(snap.texts))
	for path := range s.saved {
		if _, still := snap.texts[path]; !still {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	written := 0
	var err error
	for _, path := range paths {
		if err = may(); err != nil {
			break
		}
		var wrote bool
		if wrote, err = s.save(ctx, path, snap.texts[path]); wrote {
			written++
		}
		if err != nil {
			break
		}
	}
	if written > 0 {
		s.audit.Write(audit.Entry{Action: audit.SaveHistory, Namespace: s.namespace, Variable: historyPath + "*", Reason: fmt.Sprintf("%d variables", written), Err: err})
	}
	return err
}

// save writes a text unless it equals the last one saved; wrote is true if a write was
// attempted. The caller holds s.mu.
func (s *Store) save(ctx context.Context, path, text string) (wrote bool, err error) {
	if s.saved[path] == text {
		return false, nil
	}
	o := (&api.WriteOptions{Namespace: s.namespace}).WithContext(ctx)
	if text == "" {
		_, err = s.client.Variables().Delete(path, o)
	} else {
		_, _, err = s.client.Variables().Update(&api.Variable{
			Namespace: s.namespace, Path: path, Items: api.VariableItems{dataItem: text},
		}, o)
	}
	if err != nil {
		return true, fmt.Errorf("saving variable %s: %w", path, err)
	}
	s.saved[path] = text
	return true, nil
}
