// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// settleTime is the time after the end of a day in which the day may still change.
const settleTime = time.Hour

// Due returns the days that can be archived now, in order.
func (l *Ledger) Due(now time.Time) []Day {
	return slices.DeleteFunc(l.Days(), func(d Day) bool { return now.Before((d + 1).Start().Add(settleTime)) })
}

// Days returns the days that are not archived and have rows, in order.
func (l *Ledger) Days() []Day {
	var days []Day
	for k := range l.Rows {
		if !slices.Contains(days, k.Day) {
			days = append(days, k.Day)
		}
	}
	slices.Sort(days)
	return days
}

// Day returns copies of the rows of a day, in the order of their keys.
func (l *Ledger) Day(day Day) []Row {
	var rows []Row
	for k, r := range l.Rows {
		if k.Day == day {
			rows = append(rows, *r)
		}
	}
	slices.SortFunc(rows, compare)
	return rows
}

// Close drops the rows up to the end of a day, after they have been archived. From then on,
// the ledger no longer counts use before the end of that day.
func (l *Ledger) Close(day Day) {
	l.Closed = max(l.Closed, day+1)
	for k := range l.Rows {
		if k.Day <= day {
			delete(l.Rows, k)
		}
	}
}

func compare(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Day, b.Day), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Job, b.Job),
		strings.Compare(a.Pool, b.Pool), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
}

// Fold reduces the number of rows. In each namespace it keeps the largest rows, as many as
// most, and adds up the others by day, pool and queue. The sums get the given shard. Totals
// stay the same.
func Fold(rows []Row, most, shard int) []Row {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(b.Held, a.Held), compare(a, b)) })
	kept := make([]Row, 0, len(rows))
	sums, count := map[Key]*Row{}, map[string]int{}
	for i := range rows {
		r := &rows[i]
		if r.Job != "" && count[r.Namespace] < most {
			count[r.Namespace]++
			kept = append(kept, *r)
			continue
		}
		k := Key{Day: r.Day, Pool: r.Pool, Queue: r.Queue, Namespace: r.Namespace, Shard: shard}
		if sums[k] == nil {
			sums[k] = &Row{Key: k}
		}
		sums[k].Add(&r.Counts)
	}
	for _, r := range sums {
		kept = append(kept, *r)
	}
	slices.SortFunc(kept, compare)
	return kept
}

// By states how rows are grouped.
type By string

// The groupings.
const (
	ByQueue     By = "queue"
	ByNamespace By = "namespace"
	ByJob       By = "job"
	ByKind      By = "kind"
	ByPool      By = "pool"
	ByDay       By = "day"
)

// Groupings returns all ways to group rows.
func Groupings() []By { return []By{ByQueue, ByNamespace, ByJob, ByKind, ByPool, ByDay} }

// Group adds up rows, which must be in the order of their days. The key of a sum contains
// only the grouping and what belongs to it: the namespace of a job or kind, and the pool of
// a queue.
func Group(rows []Row, by By) []Row {
	sums := map[Key]*Row{}
	for i := range rows {
		r := &rows[i]
		k := r.group(by)
		s := sums[k]
		if s == nil {
			s = &Row{Key: k}
			sums[k] = s
		}
		s.Add(&r.Counts)
		if r.First > 0 {
			s.span(r.First, r.Last)
		}
		if by == ByJob && r.Job != "" {
			s.End = r.End // of the newest day
		}
	}
	out := make([]Row, 0, len(sums))
	for _, s := range sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, compare)
	return out
}

func (r *Row) group(by By) Key {
	switch by {
	case ByQueue:
		return Key{Pool: r.Pool, Queue: r.Queue}
	case ByNamespace:
		return Key{Namespace: r.Namespace}
	case ByJob:
		return Key{Namespace: r.Namespace, Job: r.Job}
	case ByKind:
		return Key{Namespace: r.Namespace, Kind: r.Kind}
	case ByPool:
		return Key{Pool: r.Pool}
	case ByDay:
	}
	return Key{Day: r.Day}
}

// FoldNamespaces keeps the rows of the largest namespaces, as many as most, and adds up the
// rows of the others. These sums have no namespace.
func FoldNamespaces(rows []Row, most int) []Row {
	sums := Group(rows, ByNamespace)
	slices.SortFunc(sums, func(a, b Row) int { return cmp.Or(cmp.Compare(b.Held, a.Held), compare(a, b)) })
	small := map[string]bool{}
	for _, s := range sums[min(most, len(sums)):] {
		small[s.Namespace] = true
	}
	rows = slices.Clone(rows)
	for i := range rows {
		if small[rows[i].Namespace] {
			rows[i].Namespace, rows[i].Job = "", ""
		}
	}
	return Fold(rows, len(rows), 0)
}
