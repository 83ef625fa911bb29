// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Query selects and groups rows.
type Query struct {
	By         By
	First      Day
	Pool       string // "" is all
	Namespaces func(string) (bool, error)
	Job        identity.JobKey // zero is all
}

// maxSince is the largest number of days of a query.
const maxSince = 1000

// ParseSince returns the first day of a period. The text is this day, or the number of days
// of the period up to today, such as 30d.
func ParseSince(s string, now time.Time) (Day, error) {
	if number, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= maxSince {
			return DayOf(now) - Day(n) + 1, nil
		}
	}
	day, err := ParseDay(s)
	if err != nil || day < 0 {
		return 0, fmt.Errorf("%q is no period; write a number of days such as 30d (at most %dd), or the first day such as 2026-11-01", s, maxSince)
	}
	if today := DayOf(now); day > today {
		return 0, fmt.Errorf("%s is in the future; today is %s (UTC)", day, today)
	}
	return max(day, DayOf(now)-maxSince), nil
}

// ParseBy returns the grouping with a name.
func ParseBy(s string) (By, error) {
	if by := By(s); slices.Contains(Groupings(), by) {
		return by, nil
	}
	var names []string
	for _, by := range Groupings() {
		names = append(names, string(by))
	}
	return "", fmt.Errorf("%q is not known; write one of %s", s, strings.Join(names, ", "))
}

// Select returns the sums of the rows that match the query.
func (q *Query) Select(rows []Row) ([]Row, error) {
	var out []Row
	for i := range rows {
		r := &rows[i]
		if q.Pool != "" && r.Pool != q.Pool || q.Job.ID != "" && (identity.JobKey{Namespace: r.Namespace, ID: r.Job}) != q.Job {
			continue
		}
		may, err := q.Namespaces(r.Namespace)
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, *r)
		}
	}
	return Group(out, q.By), nil
}
