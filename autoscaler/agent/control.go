// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/nomad/api"
)

// Control is what users told the running autoscaler. It is shared by all
// agents through a Nomad variable, and outlives them.
type Control struct {
	// Policies by node pool, as written on one line: name(option=value).
	// They win over the configuration.
	Policies map[string]string `json:"policies,omitempty"`
	// Paused are the jobs, as namespace/id, that are left alone; All is all.
	Paused []string `json:"paused,omitempty"`
	All    bool     `json:"all,omitempty"`
}

func (c Control) paused(key string) bool { return c.All || slices.Contains(c.Paused, key) }

func (c Control) clone() Control {
	return Control{Policies: maps.Clone(c.Policies), Paused: slices.Clone(c.Paused), All: c.All}
}

const controlPath = "kolo/control"

func (v *vault) loadControl(ctx context.Context) (Control, error) {
	var c Control
	text, err := v.load(ctx, controlPath)
	if err != nil || text == "" {
		return c, err
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Control{}, fmt.Errorf("reading %s: %w", controlPath, err)
	}
	return c, nil
}

// saveControl writes the control with the token of the user whose wish it is,
// even where nothing differs: so Nomad decides whether that user may.
func (v *vault) saveControl(ctx context.Context, c Control, token string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing %s: %w", controlPath, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.write(ctx, controlPath, string(text), token)
}

// may returns nil where Nomad lets the token write the control, by writing it
// as it is. Any agent may ask: the write is conditional on what was read.
func (v *vault) may(ctx context.Context, token string) error {
	for {
		now, _, err := v.client.Variables().Peek(controlPath, (&api.QueryOptions{Namespace: v.namespace}).WithContext(ctx))
		if err != nil {
			return fmt.Errorf("reading variable %s: %w", controlPath, err)
		}
		if now == nil {
			now = &api.Variable{Namespace: v.namespace, Path: controlPath, Items: api.VariableItems{dataItem: "{}"}}
		}
		_, _, err = v.client.Variables().CheckedUpdate(now, (&api.WriteOptions{Namespace: v.namespace, AuthToken: token}).WithContext(ctx))
		var changed api.ErrCASConflict
		if !errors.As(err, &changed) {
			return err
		}
	}
}
