// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// UsageSnapshot is an encoded ledger, as of one time.
type UsageSnapshot struct {
	texts   [usage.Shards]string
	due     []archive
	Dropped int // states of jobs that do not fit
}

// archive is a day that is due.
type archive struct {
	day  usage.Day
	text string
}

// EncodeUsage returns a snapshot of a ledger. most is the largest number of jobs that an
// archived day keeps for each namespace; the smaller ones are added up.
func EncodeUsage(l *usage.Ledger, now time.Time, most int) (*UsageSnapshot, error) {
	var all [usage.Shards]usageShard
	for key, s := range l.Jobs {
		i := usage.Shard(key)
		all[i].Jobs = append(all[i].Jobs, usageJob{key, s})
	}
	for k, r := range l.Rows {
		i := k.Shard - 1 // of a sum
		if k.Shard < 1 || k.Shard > usage.Shards {
			i = usage.Shard(identity.JobKey{Namespace: k.Namespace, ID: k.Job})
		}
		all[i].Rows = append(all[i].Rows, *r)
	}
	out := &UsageSnapshot{}
	for _, day := range l.Due(now) {
		text, err := encodeDay(l.Day(day), most)
		if err != nil {
			return nil, err
		}
		out.due = append(out.due, archive{day, text})
	}
	for i := range all {
		s := &all[i]
		if len(s.Jobs) == 0 && len(s.Rows) == 0 {
			continue
		}
		slices.SortFunc(s.Jobs, func(a, b usageJob) int {
			return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.ID, b.Key.ID))
		})
		s.Rows = usage.Fold(s.Rows, len(s.Rows), i+1) // sorts them
		s.Floor = l.Floors[i]
		text, dropped, err := s.fit(i+1, now.UnixMilli())
		if err != nil {
			return nil, err
		}
		out.texts[i] = text
		out.Dropped += dropped
	}
	return out, nil
}

// fit encodes a shard. If the shard does not fit into a variable, small rows are added up.
// If that is not enough, states are dropped from the namespaces with the most jobs. Jobs
// without a state are counted from now on.
func (s *usageShard) fit(shard int, now int64) (text string, dropped int, err error) {
	for most := len(s.Rows) / 2; ; most /= 2 {
		if text, err = pack(s); err != nil || len(text) <= shardSize {
			return text, 0, err
		}
		s.Rows = usage.Fold(s.Rows, most, shard)
		if most == 0 {
			break
		}
	}
	for {
		if text, err = pack(s); err != nil || len(text) <= shardSize || len(s.Jobs) == 0 {
			return text, dropped, err
		}
		count := map[string]int{}
		most := s.Jobs[0].Key.Namespace
		for _, j := range s.Jobs {
			if count[j.Key.Namespace]++; count[j.Key.Namespace] > count[most] {
				most = j.Key.Namespace
			}
		}
		half := (count[most] + 1) / 2
		s.Jobs = slices.DeleteFunc(s.Jobs, func(j usageJob) bool {
			if j.Key.Namespace != most || half == 0 {
				return false
			}
			half--
			dropped++
			return true
		})
		s.Floor = now
	}
}

// encodeDay encodes the rows of a day so that they fit into a variable.
func encodeDay(rows []usage.Row, most int) (string, error) {
	for ; ; most /= 2 {
		rows = usage.Fold(rows, most, 0)
		text, err := pack(&usageShard{Rows: rows})
		if err != nil || len(text) <= shardSize {
			return text, err
		}
		if most == 0 {
			break
		}
	}
	for most = len(rows) / 2; ; most /= 2 {
		rows = usage.FoldNamespaces(rows, most)
		text, err := pack(&usageShard{Rows: rows})
		if err != nil || len(text) <= shardSize || most == 0 {
			return text, err
		}
	}
}

// decodeUsage adds the content of a shard to a ledger, except rows of archived days.
func decodeUsage(l *usage.Ledger, shard int, text string) error {
	var s usageShard
	if err := unpack(text, &s); err != nil {
		return err
	}
	l.Floors[shard] = s.Floor
	for _, j := range s.Jobs {
		if j.State == nil {
			continue
		}
		if j.State.Allocs == nil {
			j.State.Allocs = map[string]*usage.Record{}
		}
		l.Jobs[j.Key] = j.State
	}
	for i := range s.Rows {
		if r := &s.Rows[i]; r.Day >= l.Closed {
			l.Rows[r.Key] = r
		}
	}
	return nil
}

// pack returns the JSON of a value, compressed and in base64.
func pack(v any) (string, error) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

// unpack reads what pack wrote.
func unpack(text string, into any) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(z, 64<<20)).Decode(into); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	return nil
}
