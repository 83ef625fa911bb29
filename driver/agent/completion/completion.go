// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package completion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

// Store keeps the record in Nomad that a training is complete. Scaling a finished
// batch job makes Nomad run its workers again (nomad/scheduler/reconciler,
// filterOldTerminalAllocs), and they must not train from the beginning.
//
// The record is an item of the variable nomad/jobs/<job>, which a workload identity may
// always read. With ACLs, the job needs a policy to write it; see
// docs/reference/driver.md.
type Store struct {
	client *api.Client
	token  nomadapi.Token
	config config.Config
	// digest is the group's digest from when the agent started. This agent does not train
	// any version of the job that is submitted later.
	digest string
	// jobType is the type of the job, or "" if the agent may not read the job.
	jobType string
}

// Record is the record of a completed training: the content of the item in the job's
// variable.
type Record struct {
	// Task is a digest of the command, arguments and environment of the task in Group,
	// the leader's group. A job with another digest trains again.
	Task  string `json:"task"`
	Group string `json:"group"`
	// Digests are the digests of the job's groups, see jobDigests: that of Group from when
	// the training began, and those of the others from when it ended, because they may have
	// been added or changed in between. Created is the job's create index, which changes
	// when the job is purged. If the agent may not read the job, they are nil and 0.
	Digests map[string]string `json:"specs,omitempty"`
	Created uint64            `json:"created"`
	Alloc   string            `json:"alloc"`
	Time    time.Time         `json:"time"`
	Reason  string            `json:"reason"`
}

// New returns the Store of an agent's job.
func New(c config.Config, token nomadapi.Token) (*Store, error) {
	client, err := nomadapi.NewClient(c.NomadAddr)
	if err != nil {
		return nil, err
	}
	client.SetNamespace(c.Namespace)
	return &Store{client: client, token: token, config: c}, nil
}

// query returns options with the current identity. It is read for each query, because
// training takes longer than an identity is valid.
func (c *Store) query(ctx context.Context) (*api.QueryOptions, error) {
	secret, err := c.token.Read()
	if err != nil {
		return nil, err
	}
	return (&api.QueryOptions{AuthToken: secret}).WithContext(ctx), nil
}

func (c *Store) path() string { return "nomad/jobs/" + c.config.JobID }
func (c *Store) item() string { return "kolo_complete_" + c.config.Service }

// taskDigest returns the digest of what this agent's task trains.
func (c *Store) taskDigest() string {
	return digest(c.config.Command, c.config.Args, c.config.Env)
}

// job returns the job's create index, type and digests; 0, "" and nil if the job can't be
// read.
func (c *Store) job(q *api.QueryOptions) (created uint64, jobType string, digests map[string]string) {
	job, _, err := c.client.Jobs().Info(c.config.JobID, q)
	if err != nil || job.CreateIndex == nil || job.Type == nil {
		return 0, "", nil
	}
	return *job.CreateIndex, *job.Type, jobDigests(job, c.config.Framework, c.config.Task)
}

// Find returns the record of a completed training, or nil if there is none or if the job
// has changed since then. The agent calls it when it starts.
func (c *Store) Find(ctx context.Context) (*Record, error) {
	q, err := c.query(ctx)
	if err != nil {
		return nil, err
	}
	created, jobType, digests := c.job(q)
	if c.digest == "" { // not known from an earlier look
		c.jobType, c.digest = jobType, digests[c.config.Group]
	}
	v, _, err := c.client.Variables().Peek(c.path(), q)
	if err != nil || v == nil {
		return nil, err
	}
	text, ok := v.Items[c.item()]
	if !ok {
		return nil, nil
	}
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("variable %s, item %s: %w", c.path(), c.item(), err)
	}
	if r.Group == c.config.Group && r.Task != c.taskDigest() {
		return nil, nil
	}
	if created != 0 && r.Created != 0 && created != r.Created {
		return nil, nil // purged and submitted again
	}
	if then := r.Digests[c.config.Group]; c.digest != "" && then != "" && c.digest != then {
		return nil, nil // submitted again with another script, for example
	}
	return &r, nil
}

// Save writes the record and keeps the variable's other items.
func (c *Store) Save(ctx context.Context, reason string) error {
	q, err := c.query(ctx)
	if err != nil {
		return err
	}
	w := (&api.WriteOptions{AuthToken: q.AuthToken}).WithContext(ctx)
	created, _, digests := c.job(q)
	if digests != nil {
		digests[c.config.Group] = c.digest
	}
	value, err := json.Marshal(Record{Task: c.taskDigest(), Group: c.config.Group, Digests: digests, Created: created, Alloc: c.config.AllocID,
		Time: time.Now().UTC(), Reason: reason})
	if err != nil {
		return err
	}
	for range 5 {
		v, _, err := c.client.Variables().Peek(c.path(), q)
		if err != nil {
			return fmt.Errorf("read variable %s: %w", c.path(), err)
		}
		if v == nil {
			v = &api.Variable{Namespace: c.config.Namespace, Path: c.path()}
		}
		if v.Items == nil {
			v.Items = api.VariableItems{}
		}
		v.Items[c.item()] = string(value)
		_, _, err = c.client.Variables().CheckedUpdate(v, w)
		var conflict api.ErrCASConflict
		if !errors.As(err, &conflict) {
			if err != nil {
				return fmt.Errorf("write variable %s: %w; with ACLs on, the job needs a policy that may write it", c.path(), err)
			}
			return nil
		}
	}
	return fmt.Errorf("variable %s keeps changing", c.path())
}

// Warning returns a warning if the job's type makes Nomad start it again after training is
// complete, else "".
func (c *Store) Warning() string {
	if c.jobType != api.JobTypeService && c.jobType != api.JobTypeSystem {
		return ""
	}
	return fmt.Sprintf(`a job of type %q can't complete: Nomad starts it again when training is, until it gives up; write type = "batch" (Nomad's default is "service")`, c.jobType)
}

// Explain returns a message for the user: why there is nothing to train, and how to train
// again.
func (r *Record) Explain(c *Store) string {
	again := fmt.Sprintf("submit the job with a change (of its script, arguments, env or meta), or after nomad job stop -purge -namespace %s %s",
		c.config.Namespace, c.config.JobID)
	if c.digest == "" || r.Digests[c.config.Group] == "" {
		again = fmt.Sprintf("run nomad var purge -namespace %s %s, and then nomad job stop -purge, and submit the job; changes of it are not noticed, "+
			"as the identity may not read the job (capability read-job), or groups name their tasks differently", c.config.Namespace, c.path())
	}
	return fmt.Sprintf("training was completed at %s by allocation %s: nothing to do. To train again, %s",
		r.Time.Format(time.RFC3339), r.Alloc[:min(8, len(r.Alloc))], again)
}
