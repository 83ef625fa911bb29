// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// events holds the events of the stream since Check began.
type events struct {
	mu      sync.Mutex
	payload map[string][]object // by type of payload and of event
	beats   int                 // lines without an event
	err     error
}

// follow reads the event stream until the test ends.
func (n *Nomad) follow(t *testing.T) *events {
	t.Helper()
	q := (&api.QueryOptions{Namespace: "*"}).WithContext(t.Context())
	body, err := n.Client.Raw().Response("/v1/event/stream?topic=Job&topic=Allocation&topic=Node&topic=Evaluation", q)
	must.NoError(t, err)
	e := &events{payload: map[string][]object{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		dec := json.NewDecoder(body)
		for e.err == nil {
			var batch struct {
				Events []struct {
					Type    string
					Payload map[string]any // what the event is about, and more
				}
			}
			err := dec.Decode(&batch)
			e.mu.Lock()
			e.err = err
			if len(batch.Events) == 0 {
				e.beats++
			}
			for _, of := range batch.Events {
				for kind, v := range of.Payload {
					if o, ok := v.(object); ok {
						e.payload[kind+" "+of.Type] = append(e.payload[kind+" "+of.Type], o)
					}
				}
			}
			e.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = body.Close() // which ends the reader
		<-done
	})
	return e
}

// check: the stream contains complete events for everything that the earlier assertions
// caused, and a heartbeat every 10 seconds.
func (e *events) check(t *testing.T, _ *Nomad) {
	eventually(t, "events and a heartbeat", func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		must.NoError(t, e.err)
		for _, kind := range []string{"Job JobRegistered", "Job JobDeregistered", "Allocation PlanResult", "Allocation AllocationUpdated", "Node ", "Evaluation "} {
			found := false
			for k := range e.payload {
				found = found || strings.HasPrefix(k, kind)
			}
			if !found {
				return fmt.Errorf("no %s in %d kinds of events", kind, len(e.payload))
			}
		}
		if e.beats == 0 {
			return errors.New("no heartbeat")
		}
		return nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	must.NoError(t, e.err)
	job := find(e.payload["Job JobRegistered"], "ID", "team/train")
	must.NoError(t, within(job, strings.Split("TaskGroups.*.Scaling.Policy.kolo", ".")))
	must.NotNil(t, find(e.payload["Job JobDeregistered"], "ID", "team/train"), must.Sprint("a purge is an event"))
	for _, a := range e.payload["Allocation PlanResult"] {
		has(t, "/v1/allocations", a)
		must.Less(t, time.Hour, time.Since(time.Unix(0, int64(a["CreateTime"].(float64)))))
	}
	blocked := false
	for kind, all := range e.payload {
		for _, o := range all {
			switch {
			case strings.HasPrefix(kind, "Evaluation "):
				has(t, "/v1/evaluations", o)
				blocked = blocked || o["BlockedEval"] != nil && o["BlockedEval"] != ""
			case strings.HasPrefix(kind, "Node "):
				has(t, "/v1/node/{}", o)
			}
		}
	}
	must.True(t, blocked, must.Sprint("an evaluation that could not place everything names the blocked one"))
}
