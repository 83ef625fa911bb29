// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// Vars are values of a jobspec's HCL variables, of types that encoding/json
// supports.
type Vars map[string]any

// Parse parses an HCL jobspec into a job.
func (c *Cluster) Parse(hcl string, vars Vars) (*api.Job, error) {
	var text strings.Builder
	for name, value := range vars {
		// HCL reads a JSON value as the same value.
		b, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		fmt.Fprintf(&text, "%s = %s\n", name, b)
	}
	return c.API.Jobs().ParseHCLOpts(&api.JobsParseRequest{
		JobHCL: hcl, Variables: text.String(), Canonicalize: true,
	})
}

// Register parses and registers an HCL jobspec.
func (c *Cluster) Register(ctx context.Context, hcl string, vars Vars) (*api.Job, error) {
	job, err := c.Parse(hcl, vars)
	if err != nil {
		return nil, err
	}
	return job, c.RegisterJob(ctx, job)
}

// RegisterJob registers a job.
func (c *Cluster) RegisterJob(ctx context.Context, job *api.Job) error {
	c.log("nomad: job run %s", *job.ID)
	_, _, err := c.API.Jobs().Register(job, new(api.WriteOptions).WithContext(ctx))
	return err
}

// Scale sets a group's count, as `nomad job scale` does.
func (c *Cluster) Scale(ctx context.Context, job, group string, count int) error {
	c.log("nomad: job scale %s %s %d", job, group, count)
	_, _, err := c.API.Jobs().Scale(job, group, &count, "", false, nil, new(api.WriteOptions).WithContext(ctx))
	return err
}

// StopJob stops a job. With purge, it also removes the job from Nomad.
func (c *Cluster) StopJob(ctx context.Context, job string, purge bool) error {
	c.log("nomad: job stop %s", job)
	_, _, err := c.API.Jobs().Deregister(job, purge, new(api.WriteOptions).WithContext(ctx))
	return err
}

// Allocs returns all allocations of a job, oldest first, with task states.
func (c *Cluster) Allocs(ctx context.Context, job string) ([]*api.AllocationListStub, error) {
	allocs, _, err := c.API.Jobs().Allocations(job, true, new(api.QueryOptions).WithContext(ctx))
	slices.SortFunc(allocs, func(a, b *api.AllocationListStub) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return allocs, err
}

// Running returns the allocations of a job that run and that Nomad wants to run,
// ordered by name.
func (c *Cluster) Running(ctx context.Context, job string) ([]*api.AllocationListStub, error) {
	allocs, err := c.Allocs(ctx, job)
	allocs = slices.DeleteFunc(allocs, func(a *api.AllocationListStub) bool {
		return a.ClientStatus != api.AllocClientStatusRunning || a.DesiredStatus != api.AllocDesiredStatusRun
	})
	slices.SortFunc(allocs, func(a, b *api.AllocationListStub) int { return cmp.Compare(index(a.Name), index(b.Name)) })
	return allocs, err
}

// index returns the number in an allocation's name, job.group[2].
func index(name string) int {
	_, rest, _ := strings.Cut(name, "[")
	n, _ := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	return n
}

// WaitRunning waits until exactly n allocations of a job run.
func (c *Cluster) WaitRunning(ctx context.Context, job string, n int) ([]*api.AllocationListStub, error) {
	var running []*api.AllocationListStub
	err := Until(ctx, fmt.Sprintf("%d running allocations of %s", n, job), func(ctx context.Context) error {
		allocs, err := c.Running(ctx, job)
		if err != nil {
			return err
		}
		if len(allocs) != n {
			return fmt.Errorf("%d are running; %s", len(allocs), c.story(ctx, job))
		}
		running = allocs
		return nil
	})
	return running, err
}

// WaitStatus waits until a job has the given status, for example "dead".
func (c *Cluster) WaitStatus(ctx context.Context, job, status string) error {
	return Until(ctx, fmt.Sprintf("%s to be %s", job, status), func(ctx context.Context) error {
		info, _, err := c.API.Jobs().Info(job, new(api.QueryOptions).WithContext(ctx))
		if err != nil {
			return err
		}
		if *info.Status != status {
			return fmt.Errorf("it is %s; %s", *info.Status, c.story(ctx, job))
		}
		return nil
	})
}

// story returns one line about a job's allocations, for error messages.
func (c *Cluster) story(ctx context.Context, job string) string {
	allocs, err := c.Allocs(ctx, job)
	if err != nil {
		return err.Error()
	}
	var parts []string
	for _, a := range allocs {
		part := fmt.Sprintf("%s[%d] %s", a.ID[:8], index(a.Name), a.ClientStatus)
		if events := Events(a); a.ClientStatus != api.AllocClientStatusRunning && len(events) > 0 {
			part += " (" + events[len(events)-1] + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// Events returns the events of an allocation's tasks, oldest first.
func Events(a *api.AllocationListStub) []string {
	var events []string
	for _, state := range a.TaskStates {
		for _, e := range state.Events {
			events = append(events, e.Type+": "+e.DisplayMessage)
		}
	}
	return events
}

// Logs returns everything that an allocation's task wrote to "stdout" or "stderr".
// It reads the files, so it also works for a node that is cut off.
func (c *Cluster) Logs(allocID, task, stream string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(c.Dir, "*", "alloc", allocID, "alloc", "logs", task+"."+stream+".*"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		text.Write(b)
	}
	return text.String(), nil
}

// NodeOf returns the node that an allocation is on.
func (c *Cluster) NodeOf(a *api.AllocationListStub) *Node {
	for _, n := range c.Nodes {
		if n.ID == a.NodeID {
			return n
		}
	}
	return nil
}
