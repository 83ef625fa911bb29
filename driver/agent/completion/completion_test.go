// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package completion

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

// identity returns the token of a file with the given text.
func identity(t *testing.T, text string) nomadapi.Token {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nomad_token")
	must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return nomadapi.Token{File: file}
}

// registry is the part of Nomad that completion uses.
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

// A job that is submitted again with changes trains again; a scaled job does not.
func TestCompletion(t *testing.T) {
	t.Parallel()
	pointer := func(s string) *string { return &s }
	job := func() *api.Job {
		one, index := 1, uint64(7)
		return &api.Job{
			ID: pointer("train"), Type: pointer("batch"), CreateIndex: &index, Meta: map[string]string{"team": "vision"},
			TaskGroups: []*api.TaskGroup{{Name: pointer("workers"), Count: &one, Tasks: []*api.Task{
				{
					Driver: "horovod", Env: map[string]string{"LR": "0.1"},
					Templates: []*api.Template{{DestPath: pointer("local/train.py"), EmbeddedTmpl: pointer("import torch")}},
					Artifacts: []*api.TaskArtifact{{GetterSource: pointer("https://example.com/data.tar")}},
				},
				{Driver: "docker", Env: map[string]string{"LEVEL": "info"}},
			}}},
		}
	}
	another := func(j *api.Job) *api.TaskGroup {
		g := *j.TaskGroups[0]
		g.Name = pointer("more")
		return &g
	}
	script := func(j *api.Job) { j.TaskGroups[0].Tasks[0].Templates[0].EmbeddedTmpl = pointer("import jax") }
	for name, c := range map[string]struct {
		change func(*api.Job) // what is submitted afterwards
		args   []string
		from   string // the group that is placed afterwards, if another
		late   bool   // it is submitted when the last steps are made already
		hidden bool   // the identity may not read the job, at first
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
		"a late group":    {change: func(j *api.Job) { j.TaskGroups = append(j.TaskGroups, another(j)) }, late: true},
		"placed from it":  {change: func(j *api.Job) { j.TaskGroups = append(j.TaskGroups, another(j)) }, late: true, from: "more"},
		"it was changed":  {change: func(j *api.Job) { script(j); j.TaskGroups[0].Name = pointer("other") }, late: true, from: "other"},
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
			settings := config.Config{Framework: "horovod", Command: "python3", Service: "train", JobID: "train", Group: "workers", AllocID: "0123456789", NomadAddr: server.URL}
			first, err := New(settings, identity(t, "ey"))
			must.NoError(t, err)
			found, err := first.Find(t.Context())
			must.NoError(t, err)
			must.Nil(t, found)
			if c.late {
				nomad.job = after
			}
			must.NoError(t, first.Save(t.Context(), "a slot exited with 0"))

			nomad.job, settings.Args = after, c.args
			settings.Group = cmp.Or(c.from, settings.Group)
			next, err := New(settings, identity(t, "ey"))
			must.NoError(t, err)
			found, err = next.Find(t.Context())
			must.NoError(t, err)
			must.Eq(t, c.again, found == nil)
			if found != nil {
				must.Eq(t, c.hidden, strings.Contains(found.Explain(next), "nomad var purge -namespace  nomad/jobs/train"))
			}
		})
	}
}

// Groups with the same training may name their tasks differently: the record covers all of
// them.
func TestCompletion_TaskNames(t *testing.T) {
	t.Parallel()
	index, kind := uint64(7), "batch"
	job := &api.Job{CreateIndex: &index, Type: &kind}
	for group, task := range map[string]string{"a100": "train", "h100": "learn"} {
		job.TaskGroups = append(job.TaskGroups, &api.TaskGroup{Name: &group, Tasks: []*api.Task{{Name: task, Driver: "docker", Config: map[string]any{"image": "torch:1"}}}})
	}
	server := httptest.NewServer(&registry{job: job})
	defer server.Close()
	store := func(group, task string) *Store {
		s, err := New(config.Config{Framework: "torch", Service: "train", JobID: "train", Group: group, Task: task, AllocID: "0123456789", NomadAddr: server.URL}, identity(t, "ey"))
		must.NoError(t, err)
		return s
	}
	first := store("a100", "train")
	_, err := first.Find(t.Context())
	must.NoError(t, err)
	must.NoError(t, first.Save(t.Context(), "a slot exited with 0"))
	other := store("h100", "learn")
	found, err := other.Find(t.Context())
	must.NoError(t, err)
	must.NotNil(t, found)
	must.StrContains(t, found.Explain(other), "or groups name their tasks differently")
}

// Nomad's default job type leads to a warning, a job that may not be read does not.
func TestWarning(t *testing.T) {
	t.Parallel()
	for kind, warns := range map[string]bool{"service": true, "system": true, "batch": false, "sysbatch": false} {
		index := uint64(7)
		server := httptest.NewServer(&registry{job: &api.Job{Type: &kind, CreateIndex: &index}})
		defer server.Close()
		c, err := New(config.Config{JobID: "train", NomadAddr: server.URL}, identity(t, "ey"))
		must.NoError(t, err)
		must.Eq(t, "", c.Warning())
		_, err = c.Find(t.Context())
		must.NoError(t, err)
		must.Eq(t, warns, strings.Contains(c.Warning(), `write type = "batch"`), must.Sprint(kind))
	}
}

// Each query uses the current identity, because training takes longer than an identity is
// valid.
func TestCompletionGoesByTheIdentityOfTheDay(t *testing.T) {
	t.Parallel()
	token := identity(t, "first")
	var variable *api.Variable
	nomad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Nomad-Token") != "renewed":
			http.Error(w, "Permission denied", http.StatusForbidden)
		case r.Method == http.MethodPut:
			_ = json.NewDecoder(r.Body).Decode(&variable)
			_ = json.NewEncoder(w).Encode(variable)
		case r.URL.Path == "/v1/var/nomad/jobs/j" && variable != nil:
			_ = json.NewEncoder(w).Encode(variable)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(nomad.Close)
	c, err := New(config.Config{NomadAddr: nomad.URL, JobID: "j", Service: "s", AllocID: "a"}, token)
	must.NoError(t, err)
	_, err = c.Find(t.Context())
	must.Error(t, err)
	must.NoError(t, os.WriteFile(token.File, []byte("renewed"), 0o600))
	must.NoError(t, c.Save(t.Context(), "slot 0 exited with 0"))
	done, err := c.Find(t.Context())
	must.NoError(t, err)
	must.Eq(t, "a", done.Alloc)
}

// A completed job does not train again because a timeout changed.
func TestDigestLeavesOutHowATrainingRuns(t *testing.T) {
	digest := func(env, run map[string]string) string {
		return (&Store{config: config.Config{Command: "python3", Env: env, RunEnv: run}}).taskDigest()
	}
	first := digest(map[string]string{"A": "1"}, map[string]string{"TIMEOUT": "30"})
	must.Eq(t, first, digest(map[string]string{"A": "1"}, map[string]string{"TIMEOUT": "60"}))
	must.NotEq(t, first, digest(map[string]string{"A": "2"}, map[string]string{"TIMEOUT": "30"}))
}
