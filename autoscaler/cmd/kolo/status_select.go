// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// selectable is a job as -filter sees it. The names of its fields are those of the
// autoscaler's JSON answer.
type selectable struct {
	ID        string `bexpr:"id"`
	Namespace string `bexpr:"namespace"`
	Pool      string `bexpr:"pool"`
	Queue     string `bexpr:"queue"`
	Tenant    string `bexpr:"tenant"`
	Kind      string `bexpr:"kind"`
	State     string `bexpr:"state"`
	Waits     string `bexpr:"waits"` // the code of the reason, "" if the job does not wait
	Count     int    `bexpr:"count"`
	Running   int    `bexpr:"running"`
	Want      int    `bexpr:"want"`
	Size      int    `bexpr:"size"`
	Resizes   int    `bexpr:"resizes"`
	Idle      bool   `bexpr:"idle"`
}

func newSelectable(j *api.JobStatus) *selectable {
	s := &selectable{
		ID: j.ID, Namespace: j.Namespace, Pool: j.Pool, Queue: j.Queue, Tenant: j.Tenant, Kind: j.Requests.Kind, State: j.State,
		Count: j.Count, Running: j.Running, Want: j.Want, Size: j.Size, Resizes: j.Resizes, Idle: j.Idle > 0,
	}
	if j.Waits != nil {
		s.Waits = string(j.Waits.Reason)
	}
	return s
}

// orders holds the comparisons of -sort. Numbers are in descending order, because users look for
// large ones.
var orders = map[string]func(a, b *api.JobStatus) int{
	"name":      func(a, b *api.JobStatus) int { return cmp.Compare(a.JobKey.String(), b.JobKey.String()) },
	"state":     func(a, b *api.JobStatus) int { return cmp.Compare(a.State, b.State) },
	"pool":      func(a, b *api.JobStatus) int { return cmp.Compare(a.Pool, b.Pool) },
	"queue":     func(a, b *api.JobStatus) int { return cmp.Compare(a.Queue, b.Queue) },
	"workers":   func(a, b *api.JobStatus) int { return cmp.Compare(b.Running, a.Running) },
	"progress":  func(a, b *api.JobStatus) int { return cmp.Compare(b.Progress, a.Progress) },
	"resizes":   func(a, b *api.JobStatus) int { return cmp.Compare(b.Resizes, a.Resizes) },
	"attained":  func(a, b *api.JobStatus) int { return cmp.Compare(b.Attained, a.Attained) },
	"wasted":    func(a, b *api.JobStatus) int { return cmp.Compare(wasted(b), wasted(a)) },
	"idle":      func(a, b *api.JobStatus) int { return cmp.Compare(b.Idle, a.Idle) },
	"submitted": func(a, b *api.JobStatus) int { return b.Seen.Compare(a.Seen) },
}

// wasted returns the slot-seconds of a job that were not productive, or -1 if they are unknown.
func wasted(j *api.JobStatus) float64 {
	if j.Usage == nil {
		return -1
	}
	return j.Usage.Wasted()
}

// selection states which jobs a command shows, and in which order.
type selection struct {
	matches *bexpr.Evaluator // nil matches all
	order   string           // a key of orders; "" keeps the autoscaler's order
	reverse bool
}

// parseSelection returns the selection of -filter and -sort.
func parseSelection(filter, order string) (selection, error) {
	var out selection
	out.order, out.reverse = strings.CutPrefix(order, "-")
	if _, ok := orders[out.order]; !ok && out.order != "" {
		return selection{}, badFlag("-sort=%s: write one of %s", order, strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	}
	if filter == "" {
		return out, nil
	}
	matches, err := bexpr.CreateEvaluator(filter)
	if err == nil {
		_, err = matches.Evaluate(&selectable{}) // an unknown name is an error even if there are no jobs
	}
	if err != nil {
		return selection{}, badFlag("-filter=%s: %v\nwrite an expression such as 'state == \"waiting\" and pool == \"gpu\"'", filter, err)
	}
	out.matches = matches
	return out, nil
}

// apply removes jobs that are not selected from s, and sorts the others. A filter also removes all
// jobs that Kolo does not scale.
func (c selection) apply(s *api.Status) error {
	if c.matches != nil {
		var failed error
		s.Jobs = slices.DeleteFunc(s.Jobs, func(j api.JobStatus) bool {
			ok, err := c.matches.Evaluate(newSelectable(&j))
			failed = cmp.Or(failed, err)
			return !ok
		})
		if failed != nil {
			return fmt.Errorf("-filter: %w", failed)
		}
		s.Ineligible, s.Blocked = nil, nil
	}
	if compare := orders[c.order]; compare != nil {
		slices.SortStableFunc(s.Jobs, func(a, b api.JobStatus) int {
			if c.reverse {
				return compare(&b, &a)
			}
			return compare(&a, &b)
		})
	}
	return nil
}
