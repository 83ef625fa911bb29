// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

const (
	usagePath = "kolo/usage/"
	daysPath  = usagePath + "days/" // archived days
)

func usageShardPath(i int) string     { return fmt.Sprintf("%s%02d", usagePath, i) }
func usageDayPath(d usage.Day) string { return daysPath + d.String() }

// Usage keeps the account of usage in Nomad variables. Each variable is consistent by
// itself, because a shard contains both the counts of its jobs and the times up to which
// they were counted.
type Usage struct{ store *Store }

// NewUsage returns the account that is kept in a namespace.
func NewUsage(client *api.Client, namespace string, log *audit.Log) *Usage {
	return &Usage{New(client, namespace, log)}
}

// Load reads the ledger. It omits shards that cannot be decoded, and returns their errors
// as lost. The jobs of these shards are counted from now on. If err is set, there may be a
// saved ledger that could not be read.
func (u *Usage) Load(ctx context.Context, now time.Time) (l *usage.Ledger, lost, err error) {
	s := u.store
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.saved) // another autoscaler may have led and saved meanwhile
	paths, err := u.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	l = usage.New()
	texts := map[int]string{}
	for _, path := range paths {
		if day, archived := strings.CutPrefix(path, daysPath); archived {
			if d, err := usage.ParseDay(day); err == nil {
				l.Close(d)
			}
			continue
		}
		i, err := strconv.Atoi(strings.TrimPrefix(path, usagePath))
		if err != nil || i < 0 || i >= usage.Shards {
			continue
		}
		if texts[i], err = u.read(ctx, path); err != nil {
			return nil, nil, err
		}
		s.saved[path] = texts[i]
	}
	for i, text := range texts { // the last archived day is known
		if err := decodeUsage(l, i, text); err != nil {
			lost = errors.Join(lost, fmt.Errorf("variable %s: %w", usageShardPath(i), err))
			l.Floors[i] = now.UnixMilli()
		}
	}
	return l, lost, nil
}

func (u *Usage) list(ctx context.Context) ([]string, error) {
	there, _, err := u.store.client.Variables().PrefixList(usagePath, (&api.QueryOptions{Namespace: u.store.namespace}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("listing the usage: %w", err)
	}
	paths := make([]string, len(there))
	for i, m := range there {
		paths[i] = m.Path
	}
	return paths, nil
}

// read returns the text of a variable, "" if it does not exist.
func (u *Usage) read(ctx context.Context, path string) (string, error) {
	got, _, err := u.store.client.Variables().Peek(path, (&api.QueryOptions{Namespace: u.store.namespace}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("reading variable %s: %w", path, err)
	}
	if got == nil {
		return "", nil
	}
	return got.Items[dataItem], nil
}

// Save saves a snapshot, and then archives the days that are due. Before each write, it
// calls the function may, which must return an error if this autoscaler no longer leads.
// It returns the archived days, which the caller must close in its ledger. In a ledger
// that is loaded later, they are closed.
func (u *Usage) Save(ctx context.Context, snap *UsageSnapshot, may func() error) (archived []usage.Day, err error) {
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	written := 0
	put := func(path, text string) error {
		if err := may(); err != nil {
			return err
		}
		wrote, err := u.store.save(ctx, path, text)
		if wrote {
			written++
		}
		return err
	}
	defer func() { u.wrote(written, err) }()
	for i, text := range snap.texts {
		if err := put(usageShardPath(i), text); err != nil {
			return nil, err
		}
	}
	// The use in the archived rows is now saved as counted.
	for _, d := range snap.due {
		path := usageDayPath(d.day)
		if err := put(path, d.text); err != nil {
			return archived, err
		}
		delete(u.store.saved, path)
		archived = append(archived, d.day)
	}
	return archived, nil
}

// Forget deletes archived days that are older than a day.
func (u *Usage) Forget(ctx context.Context, before usage.Day, may func() error) error {
	paths, err := u.list(ctx)
	if err != nil {
		return err
	}
	for _, path := range paths {
		name, archived := strings.CutPrefix(path, daysPath)
		if d, err := usage.ParseDay(name); !archived || err != nil || d >= before {
			continue
		}
		if err := may(); err != nil {
			return err
		}
		_, err := u.store.client.Variables().Delete(path, (&api.WriteOptions{Namespace: u.store.namespace}).WithContext(ctx))
		u.wrote(1, err)
		if err != nil {
			return fmt.Errorf("deleting variable %s: %w", path, err)
		}
	}
	return nil
}

// Days returns the rows of the archived days from first to last, in order.
func (u *Usage) Days(ctx context.Context, first, last usage.Day) ([]usage.Row, error) {
	paths, err := u.list(ctx) // sorted by Nomad: day after day
	if err != nil {
		return nil, err
	}
	var rows []usage.Row
	for _, path := range paths {
		name, archived := strings.CutPrefix(path, daysPath)
		if d, err := usage.ParseDay(name); !archived || err != nil || d < first || d > last {
			continue
		}
		text, err := u.read(ctx, path)
		if err != nil {
			return nil, err
		}
		var s usageShard
		if err := unpack(text, &s); err != nil {
			return nil, fmt.Errorf("variable %s: %w", path, err)
		}
		rows = append(rows, s.Rows...)
	}
	return rows, nil
}

func (u *Usage) wrote(n int, err error) {
	if n > 0 {
		u.store.audit.Write(audit.Entry{Action: audit.SaveUsage, Namespace: u.store.namespace, Variable: usagePath + "*", Reason: fmt.Sprintf("%d variables", n), Err: err})
	}
}

// usageShard is the content of one variable.
type usageShard struct {
	Floor int64       `json:"floor,omitempty"`
	Jobs  []usageJob  `json:"jobs,omitempty"`
	Rows  []usage.Row `json:"rows,omitempty"`
}

type usageJob struct {
	Key   identity.JobKey `json:"k"`
	State *usage.State    `json:"s"`
}
