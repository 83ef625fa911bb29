// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Ledger is what is remembered of all jobs. It is not safe for concurrent
// use; the agent guards it.
type Ledger struct {
	Jobs   map[planner.JobKey]*Record
	States map[string][]byte // what policies asked to be given back, by pool
	Kinds  map[string]*Kind  // how kinds of jobs scale, by kindKey
}

// NewLedger is an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{Jobs: map[planner.JobKey]*Record{}, States: map[string][]byte{}, Kinds: map[string]*Kind{}}
}

// A Nomad variable holds 64 KiB. Jobs are spread over shards by their name,
// so that ten thousand fit, and one that changes does not rewrite all.
const (
	shards    = 64
	shardSize = 60 << 10
)

func shardOf(k planner.JobKey) int {
	return shardOfText(k.Namespace + "\x00" + k.ID)
}

func shardOfText(s string) int {
	h := fnv.New32a()
	h.Write([]byte(s))
	return int(h.Sum32() % shards)
}

type savedJob struct {
	Key    planner.JobKey `json:"key"`
	Record *Record        `json:"record"`
}

type savedShard struct {
	Jobs   []savedJob        `json:"jobs,omitempty"`
	States map[string][]byte `json:"states,omitempty"`
	Kinds  map[string]*Kind  `json:"kinds,omitempty"`
}

// encode returns the shards as they are saved; jobs that do not fit are left
// out and counted.
func (l *Ledger) encode() (out [shards]string, dropped int, err error) {
	var parts [shards]savedShard
	for k, r := range l.Jobs {
		s := shardOf(k)
		parts[s].Jobs = append(parts[s].Jobs, savedJob{k, r})
	}
	for i := range parts {
		slices.SortFunc(parts[i].Jobs, func(a, b savedJob) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	}
	for name, k := range l.Kinds {
		p := &parts[shardOfText(name)]
		if p.Kinds == nil {
			p.Kinds = map[string]*Kind{}
		}
		p.Kinds[name] = k
	}
	parts[0].States = l.States
	for i := range parts {
		for {
			text, err := pack(&parts[i])
			if err != nil {
				n := parts[i].leaveOut()
				if n == 0 {
					return out, dropped, err
				}
				dropped += n
				continue
			}
			if len(text) <= shardSize {
				out[i] = text
				break
			}
			if parts[i].Kinds != nil {
				parts[i].Kinds = nil // can be learned anew
				continue
			}
			if len(parts[i].Jobs) == 0 {
				parts[i].States = nil // a policy asked for too much
				continue
			}
			half := len(parts[i].Jobs) / 2
			dropped += len(parts[i].Jobs) - half
			parts[i].Jobs = parts[i].Jobs[:half]
		}
	}
	return out, dropped, nil
}

// leaveOut drops what cannot be encoded, and says how much that is: the rest is
// not to be lost for it.
func (s *savedShard) leaveOut() int {
	fails := func(v any) bool { _, err := json.Marshal(v); return err != nil }
	before := len(s.Jobs) + len(s.Kinds)
	s.Jobs = slices.DeleteFunc(s.Jobs, func(j savedJob) bool { return fails(j) })
	maps.DeleteFunc(s.Kinds, func(_ string, k *Kind) bool { return fails(k) })
	return before - len(s.Jobs) - len(s.Kinds)
}

func pack(s *savedShard) (string, error) {
	if len(s.Jobs) == 0 && len(s.States) == 0 && len(s.Kinds) == 0 {
		return "", nil
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := json.NewEncoder(z).Encode(s); err != nil {
		return "", fmt.Errorf("encoding the ledger: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("encoding the ledger: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

func (l *Ledger) decode(text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("decoding the ledger: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("decoding the ledger: %w", err)
	}
	var s savedShard
	if err := json.NewDecoder(io.LimitReader(z, 64<<20)).Decode(&s); err != nil {
		return fmt.Errorf("decoding the ledger: %w", err)
	}
	for _, j := range s.Jobs {
		if j.Record != nil {
			l.Jobs[j.Key] = j.Record
		}
	}
	for name, k := range s.Kinds {
		if k != nil {
			l.Kinds[name] = k
		}
	}
	for pool, state := range s.States {
		l.States[pool] = state
	}
	return nil
}

// vault keeps texts in Nomad variables, and knows what it last saved.
type vault struct {
	client    *api.Client
	namespace string

	mu    sync.Mutex // held during requests: saves keep their order
	saved map[string]string
}

const dataItem = "data"

// load returns the text at a path, "" for none.
func (v *vault) load(ctx context.Context, path string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	got, _, err := v.client.Variables().Peek(path, (&api.QueryOptions{Namespace: v.namespace}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("reading variable %s: %w", path, err)
	}
	if got == nil {
		return "", nil
	}
	v.saved[path] = got.Items[dataItem]
	return got.Items[dataItem], nil
}

// save writes a text unless it is what was saved last.
func (v *vault) save(ctx context.Context, path, text string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.saved[path] == text {
		return nil
	}
	o := (&api.WriteOptions{Namespace: v.namespace}).WithContext(ctx)
	var err error
	if text == "" {
		_, err = v.client.Variables().Delete(path, o)
	} else {
		_, _, err = v.client.Variables().Update(&api.Variable{
			Namespace: v.namespace, Path: path, Items: api.VariableItems{dataItem: text},
		}, o)
	}
	if err != nil {
		return fmt.Errorf("saving variable %s: %w", path, err)
	}
	v.saved[path] = text
	return nil
}

func shardPath(i int) string { return fmt.Sprintf("kolo/ledger/%02d", i) }

// loadLedger reads all shards there are. A shard that makes no sense is left
// out and reported as lost; an error means that there may be more.
func (v *vault) loadLedger(ctx context.Context) (l *Ledger, lost, err error) {
	l = NewLedger()
	there, _, err := v.client.Variables().PrefixList("kolo/ledger/", (&api.QueryOptions{Namespace: v.namespace}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("listing the ledger: %w", err)
	}
	for _, m := range there {
		text, err := v.load(ctx, m.Path)
		if err != nil {
			return nil, nil, err
		}
		if text != "" {
			lost = errors.Join(lost, l.decode(text))
		}
	}
	return l, lost, nil
}

func (v *vault) saveLedger(ctx context.Context, texts [shards]string, may func() error) error {
	for i, text := range texts {
		if err := may(); err != nil {
			return err
		}
		if err := v.save(ctx, shardPath(i), text); err != nil {
			return err
		}
	}
	return nil
}
