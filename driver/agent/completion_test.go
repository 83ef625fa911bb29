// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// registry is as much of Nomad as completion asks for.
type registry struct {
	mu     sync.Mutex
	job    *api.Job // nil: the identity may not read it
	stored *api.Variable
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var answer any
	switch {
	case strings.HasPrefix(req.URL.Path, "/v1/job/"):
		if r.job == nil {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		answer = r.job
	case req.Method == http.MethodPut:
		r.stored = new(api.Variable)
		if err := json.NewDecoder(req.Body).Decode(r.stored); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer = r.stored
	case r.stored == nil:
		http.NotFound(w, req)
		return
	default:
		answer = r.stored
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// A job that is submitted again with changes trains again; one that is scaled
// does not.
func TestCompletion(t *testing.T) {
	t.Parallel()
	pointer := func(s string) *string { return &s }
	job := func() *api.Job {
		one, index := 1, uint64(7)
		return &api.Job{
			ID: pointer("train"), Type: pointer("batch"), CreateIndex: &index, Meta: map[string]string{"team": "vision"},
			TaskGroups: []*api.TaskGroup{{Count: &one, Tasks: []*api.Task{
				{
					Driver: "horovod", Env: map[string]string{"LR": "0.1"},
					Templates: []*api.Template{{DestPath: pointer("local/train.py"), EmbeddedTmpl: pointer("import torch")}},
					Artifacts: []*api.TaskArtifact{{GetterSource: pointer("https://example.com/data.tar")}},
				},
				{Driver: "docker", Env: map[string]string{"LEVEL": "info"}},
			}}},
		}
	}
	script := func(j *api.Job) { j.TaskGroups[0].Tasks[0].Templates[0].EmbeddedTmpl = pointer("import jax") }
	for name, c := range map[string]struct {
		change func(*api.Job) // what is submitted afterwards
		args   []string
		late   bool // it is submitted when the last steps are made already
		hidden bool // the identity may not read the job, at first
		again  bool
	}{
		"nothing":         {},
		"the count":       {change: func(j *api.Job) { *j.TaskGroups[0].Count = 4; v := uint64(9); j.Version = &v }},
		"a sidecar":       {change: func(j *api.Job) { j.TaskGroups[0].Tasks[1].Env["LEVEL"] = "debug" }},
		"the script":      {change: script, again: true},
		"it at the end":   {change: script, late: true, again: true},
		"it, in hiding":   {change: script, hidden: true},
		"the environment": {change: func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env["LR"] = "0.2" }, again: true},
		"an artifact":     {change: func(j *api.Job) { j.TaskGroups[0].Tasks[0].Artifacts = nil }, again: true},
		"meta":            {change: func(j *api.Job) { j.Meta["run"] = "2" }, again: true},
		"it is purged":    {change: func(j *api.Job) { *j.CreateIndex = 30 }, again: true},
		"arguments":       {args: []string{"--epochs=9"}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := job()
			if c.change != nil {
				c.change(after)
			}
			nomad := &registry{job: job()}
			if c.hidden {
				nomad.job = nil
			}
			server := httptest.NewServer(nomad)
			defer server.Close()
			config := Config{Command: "python3", Service: "train", JobID: "train", AllocID: "0123456789", NomadAddr: server.URL}
			first, err := newCompletion(config, "")
			must.NoError(t, err)
			found, err := first.find(t.Context())
			must.NoError(t, err)
			must.Nil(t, found)
			if c.late {
				nomad.job = after
			}
			must.NoError(t, first.record(t.Context(), "a slot exited with 0"))

			nomad.job, config.Args = after, c.args
			next, err := newCompletion(config, "")
			must.NoError(t, err)
			found, err = next.find(t.Context())
			must.NoError(t, err)
			must.Eq(t, c.again, found == nil)
			if found != nil {
				must.Eq(t, c.hidden, strings.Contains(found.story(next), "nomad var purge -namespace  nomad/jobs/train"))
			}
		})
	}
}

// Nomad's default type is told of; a job that may not be read is not.
func TestCannotComplete(t *testing.T) {
	t.Parallel()
	for kind, warns := range map[string]bool{"service": true, "system": true, "batch": false, "sysbatch": false} {
		index := uint64(7)
		server := httptest.NewServer(&registry{job: &api.Job{Type: &kind, CreateIndex: &index}})
		defer server.Close()
		c, err := newCompletion(Config{JobID: "train", NomadAddr: server.URL}, "")
		must.NoError(t, err)
		must.Eq(t, "", c.cannotComplete())
		_, err = c.find(t.Context())
		must.NoError(t, err)
		must.Eq(t, warns, strings.Contains(c.cannotComplete(), `write type = "batch"`), must.Sprint(kind))
	}
}
