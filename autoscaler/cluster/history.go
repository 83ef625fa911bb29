// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
)

// Change is an entry of a job's scaling history: a changed count, or an event that
// changed none.
type Change struct {
	api.Change
	HasCount bool
	Spares   int // of the count, as Kolo stated it
}

// History returns a job's scaling events, newest first.
func (c *Client) History(ctx context.Context, key identity.JobKey) ([]Change, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	status, _, err := c.Jobs().ScaleStatus(key.ID, (&nomad.QueryOptions{Namespace: key.Namespace}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("reading the history of %s: %w", key, err)
	}
	var out []Change
	for group, g := range status.TaskGroups {
		for _, e := range g.Events {
			_, kolo := e.Meta[metaKey]
			ch := Change{Change: api.Change{
				Time:  time.Unix(0, int64(e.Time)), //nolint:gosec // of Nomad's clock
				Group: group, From: int(e.PreviousCount), To: int(e.PreviousCount),
				Kolo: kolo, Error: e.Error, Message: e.Message,
			}}
			if e.Count != nil {
				ch.To, ch.HasCount = int(*e.Count), true
				ch.Spares = sparesOf(e.Meta)
			}
			out = append(out, ch)
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return b.Time.Compare(a.Time) })
	return out, nil
}

// spareKey is the key of the number of spares in the data of a scaling event. The driver reads
// it; see driver/agent/leader/scaling.
const spareKey = "spare"

func sparesOf(meta map[string]any) int {
	data, _ := meta[metaKey].(map[string]any)
	n, _ := data[spareKey].(float64)
	return max(0, int(min(n, jobspec.MaxWorkers)))
}

// Spares returns how many workers of each group's count are spares. That is known only if Kolo
// wrote the count.
func Spares(history []Change, counts map[string]int) map[string]int {
	out, seen := map[string]int{}, map[string]bool{}
	for _, ch := range history {
		if !ch.HasCount || seen[ch.Group] {
			continue
		}
		seen[ch.Group] = true
		if ch.Spares > 0 && ch.To == counts[ch.Group] {
			out[ch.Group] = ch.Spares
		}
	}
	return out
}

// SetByHand reports whether someone other than Kolo wrote a group's newest count
// through Nomad's scaling endpoint, rather than by registering the job.
func SetByHand(history []Change, group string, count int) bool {
	for _, ch := range history {
		if ch.Group == group && ch.HasCount {
			return !ch.Kolo && ch.To == count
		}
	}
	return false
}

// LastChange returns the time at which a group's count was last written through the
// scaling endpoint, or the zero time if it never was.
func LastChange(history []Change, group string) time.Time {
	for _, ch := range history {
		if ch.Group == group && ch.HasCount {
			return ch.Time
		}
	}
	return time.Time{}
}

func escape(id string) string { return url.PathEscape(id) }
