// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Overrides holds the settings that users change at run time. All autoscalers share them
// through a Nomad variable, and they outlive the autoscalers.
type Overrides struct {
	// Policies holds policies by node pool, each on one line: name(option=value). They take
	// precedence over the configuration.
	Policies map[string]string `json:"policies,omitempty"`
	// Paused lists the paused jobs as namespace/id; All pauses every job.
	Paused []string `json:"paused,omitempty"`
	All    bool     `json:"all,omitempty"`
}

// IsPaused reports whether a job is paused.
func (o Overrides) IsPaused(key identity.JobKey) bool {
	return o.All || slices.Contains(o.Paused, pausedName(key))
}

// Pause pauses a job, or resumes it if on is false. The zero key stands for all jobs.
func (o *Overrides) Pause(key identity.JobKey, on bool) {
	if key == (identity.JobKey{}) {
		if o.All = on; !on {
			o.Paused = nil
		}
		return
	}
	name := pausedName(key)
	o.Paused = slices.DeleteFunc(o.Paused, func(p string) bool { return p == name })
	if on {
		o.Paused = append(o.Paused, name)
	}
}

// SetPolicy sets the policy of a node pool. An empty line restores the configured policy.
func (o *Overrides) SetPolicy(pool, line string) {
	if o.Policies == nil {
		o.Policies = map[string]string{}
	}
	if line == "" {
		delete(o.Policies, pool)
	} else {
		o.Policies[pool] = line
	}
}

func pausedName(key identity.JobKey) string { return key.Namespace + "/" + key.ID }

// overridesPath is the variable of the overrides. Anyone who may write it may change them.
const overridesPath = "kolo/overrides"

// pollTime is how long one request for changed overrides waits in Nomad.
const pollTime = 5 * time.Minute

// LoadOverrides returns the overrides with their index in Nomad.
func (s *Store) LoadOverrides(ctx context.Context) (Overrides, uint64, error) {
	o, index, _, err := s.PollOverrides(ctx, 0)
	return o, index, err
}

// PollOverrides waits, for at most pollTime, until the overrides are newer than the index
// after. It returns the overrides, their index, and next, the index to pass to the next
// call.
func (s *Store) PollOverrides(ctx context.Context, after uint64) (o Overrides, index, next uint64, err error) {
	q := (&api.QueryOptions{Namespace: s.namespace, WaitIndex: after, WaitTime: pollTime}).WithContext(ctx)
	got, meta, err := s.client.Variables().Peek(overridesPath, q)
	if err != nil {
		return o, 0, 0, fmt.Errorf("reading variable %s: %w", overridesPath, err)
	}
	if got == nil {
		return o, 0, meta.LastIndex, nil
	}
	o, err = decodeOverrides(got.Items[dataItem])
	return o, got.ModifyIndex, meta.LastIndex, err
}

// ChangeOverrides changes the overrides with the token of the commanding user. It writes
// even if nothing differs, so that Nomad checks the user's permission. It returns the
// overrides with their index in Nomad.
func (s *Store) ChangeOverrides(ctx context.Context, token string, change func(*Overrides)) (o Overrides, index uint64, err error) {
	index, err = s.rewrite(ctx, overridesPath, token, func(text string) (string, error) {
		if o, err = decodeOverrides(text); err != nil {
			return "", err
		}
		change(&o)
		out, err := json.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("writing %s: %w", overridesPath, err)
		}
		return string(out), nil
	})
	return o, index, err
}

// MayChangeOverrides returns nil if Nomad lets the token write the overrides. To find
// out, it writes them unchanged. Any autoscaler may call it.
func (s *Store) MayChangeOverrides(ctx context.Context, token string) error {
	_, err := s.rewrite(ctx, overridesPath, token, func(text string) (string, error) {
		if text == "" {
			text = "{}"
		}
		return text, nil
	})
	return err
}

func decodeOverrides(text string) (o Overrides, err error) {
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return Overrides{}, fmt.Errorf("reading %s: %w", overridesPath, err)
	}
	return o, nil
}

// rewrite changes the text at a path, on condition that it has not changed since it was
// read; otherwise it starts again. It returns the new index.
func (s *Store) rewrite(ctx context.Context, path, token string, change func(string) (string, error)) (uint64, error) {
	for {
		now, _, err := s.client.Variables().Peek(path, (&api.QueryOptions{Namespace: s.namespace}).WithContext(ctx))
		if err != nil {
			return 0, fmt.Errorf("reading variable %s: %w", path, err)
		}
		if now == nil {
			now = &api.Variable{Namespace: s.namespace, Path: path}
		}
		text, err := change(now.Items[dataItem])
		if err != nil {
			return 0, err
		}
		now.Items = api.VariableItems{dataItem: text}
		wrote, _, err := s.client.Variables().CheckedUpdate(now, (&api.WriteOptions{Namespace: s.namespace, AuthToken: token}).WithContext(ctx))
		var changed api.ErrCASConflict
		switch {
		case errors.As(err, &changed):
			continue
		case err != nil:
			return 0, fmt.Errorf("saving variable %s: %w", path, err)
		}
		return wrote.ModifyIndex, nil
	}
}
