// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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

const controlPath = "kolo/control"

// loadControl reads the control with its index in Nomad.
func (v *vault) loadControl(ctx context.Context) (Control, uint64, error) {
	c, index, _, err := v.awaitControl(ctx, 0)
	return c, index, err
}

func decodeControl(text string) (c Control, err error) {
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Control{}, fmt.Errorf("reading %s: %w", controlPath, err)
	}
	return c, nil
}

// changeControl writes a changed control with the token of the user whose wish
// it is, even where nothing differs: so Nomad decides whether that user may. It
// returns the control with its index in Nomad.
func (v *vault) changeControl(ctx context.Context, token string, change func(*Control)) (c Control, index uint64, err error) {
	index, err = v.rewrite(ctx, controlPath, token, func(text string) (string, error) {
		if c, err = decodeControl(text); err != nil {
			return "", err
		}
		change(&c)
		out, err := json.Marshal(c)
		if err != nil {
			return "", fmt.Errorf("writing %s: %w", controlPath, err)
		}
		return string(out), nil
	})
	return c, index, err
}

// may returns nil where Nomad lets the token write the control, by writing it
// as it is. Any agent may ask.
func (v *vault) may(ctx context.Context, token string) error {
	_, err := v.rewrite(ctx, controlPath, token, func(text string) (string, error) {
		if text == "" {
			text = "{}"
		}
		return text, nil
	})
	return err
}

// rewrite changes the text at a path, on condition that it is still the one
// that was read; where it is not, it begins again. It returns the new index.
func (v *vault) rewrite(ctx context.Context, path, token string, change func(string) (string, error)) (uint64, error) {
	for {
		now, _, err := v.client.Variables().Peek(path, (&api.QueryOptions{Namespace: v.namespace}).WithContext(ctx))
		if err != nil {
			return 0, fmt.Errorf("reading variable %s: %w", path, err)
		}
		if now == nil {
			now = &api.Variable{Namespace: v.namespace, Path: path}
		}
		text, err := change(now.Items[dataItem])
		if err != nil {
			return 0, err
		}
		now.Items = api.VariableItems{dataItem: text}
		wrote, _, err := v.client.Variables().CheckedUpdate(now, (&api.WriteOptions{Namespace: v.namespace, AuthToken: token}).WithContext(ctx))
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

// controlWait is how long one question for the control waits in Nomad.
const controlWait = 5 * time.Minute

// awaitControl returns the control when it is not at the index after any more,
// with its index and the one to ask after next.
func (v *vault) awaitControl(ctx context.Context, after uint64) (c Control, index, next uint64, err error) {
	q := (&api.QueryOptions{Namespace: v.namespace, WaitIndex: after, WaitTime: controlWait}).WithContext(ctx)
	got, meta, err := v.client.Variables().Peek(controlPath, q)
	if err != nil {
		return c, 0, 0, fmt.Errorf("reading variable %s: %w", controlPath, err)
	}
	if got == nil {
		return c, 0, meta.LastIndex, nil
	}
	c, err = decodeControl(got.Items[dataItem])
	return c, got.ModifyIndex, meta.LastIndex, err
}
