// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// recorded is one request of a real Horovod 0.28.1 and the answer it got.
type recorded struct {
	Worker     string            `json:"worker"`
	Generation int               `json:"gen_after"`
	Method     string            `json:"method"`
	Path       string            `json:"path"`
	Headers    map[string]string `json:"headers"`
	Body       []byte            `json:"body_b64"`
	Status     int               `json:"status"`
	Answer     []byte            `json:"resp_b64"`
}

// sharedFile finds a file of the data that is kept next to the project.
func sharedFile(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("KOLO_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the recorded requests: %v (set KOLO_SHARED)", err)
	}
	return path
}

func readTrace(t testing.TB) []recorded {
	t.Helper()
	f, err := os.Open(sharedFile(t, "data", "horovod", "trace-2-3-2.jsonl"))
	must.NoError(t, err)
	defer f.Close()
	var trace []recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		must.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		trace = append(trace, r)
	}
	must.NoError(t, lines.Err())
	must.Len(t, 224, trace)
	return trace
}

// traceRings are the three rings that the recorded job went through.
var traceRings = []map[string]rendezvous.Assignment{
	{"a:0": {0, 2, 0, 2, 0, 1}, "a:1": {1, 2, 1, 2, 0, 1}},
	{"a:0": {0, 3, 0, 2, 0, 2}, "a:1": {1, 3, 1, 2, 0, 1}, "b:0": {2, 3, 0, 1, 1, 2}},
	{"a:0": {0, 2, 0, 2, 0, 1}, "a:1": {1, 2, 1, 2, 0, 1}, "b:0": rendezvous.Removed()},
}

// replay simulates the agents and the leader of the recorded job.
type replay struct {
	mu        sync.Mutex
	rings     []parties
	addresses map[string]rendezvous.NotifyTarget
}

func newReplayRing(t *testing.T, ring map[string]rendezvous.Assignment) parties {
	slots := make([]rendezvous.Slot, 0, len(ring))
	local := map[string][]int{}
	for _, worker := range []string{"a:0", "a:1", "b:0"} {
		if a, ok := ring[worker]; ok && a != rendezvous.Removed() {
			host, _, _ := strings.Cut(worker, ":")
			slots = append(slots, rendezvous.Slot{Host: host, Assignment: a})
			local[host] = append(local[host], a.Rank)
		}
	}
	r := newParties()
	for host, ranks := range local {
		store, err := rendezvous.NewStore(rendezvous.Members{Slots: slots, Local: ranks})
		must.NoError(t, err)
		r.stores[host] = store
	}
	return r
}

// replaySlot answers one worker. Its requests come one at a time.
type replaySlot struct {
	*replay
	worker, host string
	generation   int // index into rings
}

func (s *replaySlot) place() (parties, int) {
	return s.rings[s.generation], traceRings[s.generation][s.worker].Rank
}

func (s *replaySlot) Put(_ context.Context, scope, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ring, rank := s.place()
	return errors.Join(ring.stores[s.host].Put(rank, scope, key, value), ring.carry())
}

func (s *replaySlot) Get(ctx context.Context, scope, key string) ([]byte, bool, error) {
	ring, rank := s.place()
	return ring.stores[s.host].Get(ctx, rank, scope, key)
}

func (s *replaySlot) Delete(_ context.Context, scope, key string) error {
	ring, rank := s.place()
	return ring.stores[s.host].Delete(rank, scope, key)
}

func (s *replaySlot) RankAndSize(context.Context) (rendezvous.Assignment, error) {
	s.generation++
	return traceRings[s.generation][s.worker], nil
}

func (s *replaySlot) WorkerAddress(_ context.Context, t rendezvous.NotifyTarget) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[s.worker] = t
	return nil
}

// The recorded requests of each process, in its order but at its own pace, get
// the recorded answers: two processes, then three, then two again.
func TestTrace_Replay(t *testing.T) {
	byWorker := map[string][]recorded{}
	for _, r := range readTrace(t) {
		byWorker[r.Worker] = append(byWorker[r.Worker], r)
	}
	must.MapLen(t, 3, byWorker)

	job := &replay{addresses: map[string]rendezvous.NotifyTarget{}}
	for _, ring := range traceRings {
		job.rings = append(job.rings, newReplayRing(t, ring))
	}
	group, ctx := errgroup.WithContext(withTimeout(t))
	for worker, requests := range byWorker {
		host, _, _ := strings.Cut(worker, ":")
		slot := &replaySlot{replay: job, worker: worker, host: host}
		if worker == "b:0" {
			slot.generation = 1 // it joins the second ring
		}
		endpoint, err := rendezvous.Listen(slot, ringsim.AnyPeer{}, hclog.NewNullLogger())
		must.NoError(t, err)
		defer endpoint.Close()
		client := ringsim.Client{Addr: fmt.Sprintf("127.0.0.1:%d", endpoint.Port())}
		group.Go(func() error {
			for i, r := range requests {
				status, answer, err := client.Do(ctx, r.Method, r.Path, string(r.Body))
				if err != nil {
					return fmt.Errorf("%s, request %d: %w", worker, i, err)
				}
				if err := sameAnswer(r, status, answer); err != nil {
					return fmt.Errorf("%s, request %d, %s %s: %w", worker, i, r.Method, r.Path, err)
				}
			}
			return nil
		})
	}
	must.NoError(t, group.Wait())

	// Each worker came up in every ring it was in, and registered where it listens.
	for i, ring := range traceRings {
		for worker, a := range ring {
			if a != rendezvous.Removed() {
				host, _, _ := strings.Cut(worker, ":")
				must.True(t, job.rings[i].stores[host].Up(a.Rank), must.Sprintf("ring %d, %s", i, worker))
				must.Eq(t, 6, job.rings[i].stores[host].Meshes())
			}
		}
	}
	must.MapLen(t, 3, job.addresses)
	for worker, target := range job.addresses {
		must.Between(t, 1024, target.Port, 65535, must.Sprint(worker))
		must.Len(t, 32, target.Key, must.Sprint(worker))
	}
}

// sameAnswer compares an answer with the recorded one. Whether the name of a peer's
// machine is there already depends on timing, as it did in the recording.
func sameAnswer(r recorded, status int, answer []byte) error {
	key := r.Path[strings.LastIndex(r.Path, "/")+1:]
	if r.Method == http.MethodGet && strings.HasPrefix(key, "rank_") {
		if status == 200 && string(answer) != "vm" {
			return fmt.Errorf("answer %q", answer)
		}
		return nil
	}
	if status != r.Status {
		return fmt.Errorf("status %d, was %d", status, r.Status)
	}
	if string(answer) != string(r.Answer) {
		return fmt.Errorf("answer %s, was %s", base64.StdEncoding.EncodeToString(answer), base64.StdEncoding.EncodeToString(r.Answer))
	}
	return nil
}
