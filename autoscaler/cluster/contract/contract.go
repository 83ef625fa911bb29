// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package contract is a test fixture: it asserts the behaviour of Nomad that the
// autoscaler relies on. Both a real Nomad and the stand-in for tests, package nomadtest,
// must pass its checks.
//
// A scenario here makes each Nomad API call of the autoscaler, with the same parameters.
// Fields lists each field that the autoscaler decodes. Tests compare both with the code.
package contract

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// Nomad is the server under test. It has no jobs.
type Nomad struct {
	Client *api.Client // with a management token
	Nodes  int
	// Register registers a job.
	Register func(t *testing.T, j Job)
	// Finish lets all workers of a job end successfully.
	Finish func(t *testing.T, job string)
	// Eligible sets whether a node accepts new workers.
	Eligible func(t *testing.T, node string, eligible bool)
	// Stranger returns a token without any permission.
	Stranger func(t *testing.T) (secret string)
	// Before reports whether the server is older than a version.
	Before func(t *testing.T, version string) bool
}

// Job is a batch job of one group "workers". A node runs at most one of its workers.
type Job struct {
	ID       string
	Count    int
	Min, Max int  // bounds of an elastic job; Max 0 is a job that is not elastic
	Service  bool // has a service with the job's name and a port for each worker
}

// object is Nomad's JSON, undecoded: in a decoded struct, a missing field looks like a
// zero.
type object = map[string]any

// Check runs all assertions one after another. Each assertion registers its own jobs.
func Check(t *testing.T, n *Nomad) {
	events := n.follow(t)
	for _, of := range []struct {
		name string
		run  func(*testing.T, *Nomad)
	}{
		{"nodes", nodes},
		{"statistics of a node", statistics},
		{"a job and its workers", jobs},
		{"lists by page, by namespace and by index", lists},
		{"what a job waits for", waiting},
		{"a scale, its conflict and its bounds", scaling},
		{"events of a job's scaling", reporting},
		{"a job without workers", parked},
		{"workers that have ended well", completing},
		{"versions and their tags", tagging},
		{"instances of a service", services},
		{"variables", variables},
		{"the lock of a variable", locking},
		{"whose token it is, and what it may", access},
		{"the event stream", events.check},
	} {
		t.Run(of.name, func(t *testing.T) { of.run(t, n) })
	}
}

// get reads an answer without interpreting it.
func (n *Nomad) get(t *testing.T, path string, q *api.QueryOptions, into any) *api.QueryMeta {
	t.Helper()
	meta, err := n.Client.Raw().Query(path, into, orNone(q).WithContext(t.Context()))
	must.NoError(t, err)
	return meta
}

func orNone(q *api.QueryOptions) *api.QueryOptions {
	if q == nil {
		q = &api.QueryOptions{}
	}
	return q
}

// status returns the HTTP status and the text of an error response.
func status(t *testing.T, err error) (code int, text string) {
	t.Helper()
	var resp api.UnexpectedResponseError
	must.True(t, errors.As(err, &resp) && resp.HasStatusCode(), must.Sprintf("%v is no answer", err))
	return resp.StatusCode(), resp.Body()
}

// refused asserts the HTTP status of an error response, and a part of its text.
func refused(t *testing.T, err error, code int, part string) {
	t.Helper()
	must.Error(t, err)
	got, text := status(t, err)
	must.Eq(t, code, got, must.Sprint(text))
	must.StrContains(t, text, part)
}

// find returns the first object in list whose field has the value; nil if there is none.
func find(list []object, field string, value any) object {
	for _, o := range list {
		if o[field] == value {
			return o
		}
	}
	return nil
}

// workers waits until a job runs count workers, and returns their allocations as Nomad
// lists them.
func (n *Nomad) workers(t *testing.T, job string, count int) (running []object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d workers of %s", count, job), func() error {
		var all []object
		n.get(t, "/v1/allocations", &api.QueryOptions{Params: map[string]string{"resources": "true", "task_states": "false"}}, &all)
		running = nil
		for _, a := range all {
			if a["JobID"] == job && a["ClientStatus"] == "running" && a["DesiredStatus"] == "run" {
				running = append(running, a)
			}
		}
		if len(running) != count {
			return fmt.Errorf("%d run of %v", len(running), all)
		}
		return nil
	})
	return running
}

// info reads a job.
func (n *Nomad) info(t *testing.T, job string) *api.Job {
	t.Helper()
	j, _, err := n.Client.Jobs().Info(job, nil)
	must.NoError(t, err)
	return j
}

// scale sets a count if the job is at index; index 0 matches any.
func (n *Nomad) scale(job string, count int, index uint64) (*api.JobRegisterResponse, error) {
	resp, _, err := n.Client.Jobs().ScaleWithRequest(job, &api.ScalingRequest{
		Count: new(int64(count)), Target: map[string]string{"Group": "workers"}, Message: "why", JobModifyIndex: index,
		Meta: map[string]any{"kolo": map[string]any{"by": "test"}},
	}, nil)
	return resp, err
}

// purge removes a job and waits for its workers to be gone.
func (n *Nomad) purge(t *testing.T, job string) {
	t.Helper()
	_, _, err := n.Client.Jobs().Deregister(job, true, nil)
	must.NoError(t, err)
	eventually(t, job+" to be gone", func() error {
		allocs, _, err := n.Client.Allocations().List(nil)
		for _, a := range allocs {
			if a.JobID == job && (a.ClientStatus == "running" || a.ClientStatus == "pending") {
				return fmt.Errorf("%s still runs", a.Name)
			}
		}
		return err
	})
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(check), wait.Timeout(3*time.Minute), wait.Gap(20*time.Millisecond)), must.Sprint(what))
}
