// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

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

	"github.com/kolo-nomad/kolo/autoscaler/audit"
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
// so that ten thousand fit, and one that changes does not rewrite all. What
// policies asked to be given back is cut into pieces, so that it takes no job's
// room.
const (
	shards    = 64
	shardSize = 60 << 10
	pieces    = 32 // at most

	ledgerPath = "kolo/ledger/"
	statesPath = ledgerPath + "states/"
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

// encode returns the ledger as it is saved, by path; what does not fit is left
// out and counted.
func (l *Ledger) encode() (out map[string]string, dropped int, err error) {
	out = map[string]string{}
	states, err := pack(&savedShard{States: l.States})
	if err != nil {
		return nil, 0, err
	}
	if len(states) <= pieces*shardSize {
		for i := 0; len(states) > 0; i++ {
			n := min(shardSize, len(states))
			out[fmt.Sprintf("%s%02d", statesPath, i)], states = states[:n], states[n:]
		}
	} else {
		dropped += len(l.States) // a policy asked for too much
	}
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
				if text != "" {
					out[shardPath(i)] = text
				}
				break
			}
			if parts[i].Kinds != nil {
				parts[i].Kinds = nil // can be learned anew
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

// decodeLedger is the ledger of what was saved, by path. What makes no sense is
// left out and reported as lost.
func decodeLedger(texts map[string]string) (l *Ledger, lost error) {
	l = NewLedger()
	var states strings.Builder
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasPrefix(path, statesPath) {
			states.WriteString(texts[path])
		} else {
			lost = errors.Join(lost, l.decode(texts[path]))
		}
	}
	return l, errors.Join(lost, l.decode(states.String()))
}

func (l *Ledger) decode(text string) error {
	if text == "" {
		return nil
	}
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
	audit     *audit.Log

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

// save writes a text unless it is what was saved last; wrote is true where it
// was tried.
func (v *vault) save(ctx context.Context, path, text string) (wrote bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.saved[path] == text {
		return false, nil
	}
	o := (&api.WriteOptions{Namespace: v.namespace}).WithContext(ctx)
	if text == "" {
		_, err = v.client.Variables().Delete(path, o)
	} else {
		_, _, err = v.client.Variables().Update(&api.Variable{
			Namespace: v.namespace, Path: path, Items: api.VariableItems{dataItem: text},
		}, o)
	}
	if err != nil {
		return true, fmt.Errorf("saving variable %s: %w", path, err)
	}
	v.saved[path] = text
	return true, nil
}

func shardPath(i int) string { return fmt.Sprintf("%s%02d", ledgerPath, i) }

// loadLedger reads all there is. What makes no sense is left out and reported
// as lost; an error means that there may be more.
func (v *vault) loadLedger(ctx context.Context) (l *Ledger, lost, err error) {
	v.mu.Lock()
	// Another may have led meanwhile, and saved something else.
	maps.DeleteFunc(v.saved, func(path, _ string) bool { return strings.HasPrefix(path, ledgerPath) })
	v.mu.Unlock()
	texts := map[string]string{}
	there, _, err := v.client.Variables().PrefixList(ledgerPath, (&api.QueryOptions{Namespace: v.namespace}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("listing the ledger: %w", err)
	}
	for _, m := range there {
		if texts[m.Path], err = v.load(ctx, m.Path); err != nil {
			return nil, nil, err
		}
	}
	l, lost = decodeLedger(texts)
	return l, lost, nil
}

// saveLedger saves texts by path, and removes those that are not there any more.
func (v *vault) saveLedger(ctx context.Context, texts map[string]string, may func() error) error {
	paths := slices.Collect(maps.Keys(texts))
	v.mu.Lock()
	for path := range v.saved {
		if _, still := texts[path]; !still && strings.HasPrefix(path, ledgerPath) {
			paths = append(paths, path)
		}
	}
	v.mu.Unlock()
	slices.Sort(paths)
	written := 0
	var err error
	for _, path := range paths {
		if err = may(); err != nil {
			break
		}
		var wrote bool
		if wrote, err = v.save(ctx, path, texts[path]); wrote {
			written++
		}
		if err != nil {
			break
		}
	}
	if written > 0 {
		v.audit.Write(audit.Entry{Action: audit.SaveLedger, Namespace: v.namespace, Variable: ledgerPath + "*", Reason: fmt.Sprintf("%d variables", written), Err: err})
	}
	return err
}
