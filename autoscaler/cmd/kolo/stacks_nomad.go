// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// allocations is the part of Nomad that kolo stacks needs.
type allocations interface {
	// running lists the running allocations of a job.
	running(ctx context.Context, job string) ([]allocation, error)
	// exec runs a command in a task. It may ignore the end of ctx.
	exec(ctx context.Context, a allocation, task string, command []string, stdout, stderr io.Writer) (code int, err error)
}

// allocation is a running allocation, with the tasks that may train.
type allocation struct {
	ID, NodeID, Node string
	Tasks            []string
}

const (
	// maxAnswer bounds the answer of an allocation.
	maxAnswer = 8 << 20
	// maxAtOnce is how many allocations are asked at once.
	maxAtOnce = 64
)

// collector is the command that takes the stacks in a task: the agent's program, by a link
// that the agent makes.
var collector = []string{"/bin/sh", "-c", `exec "$NOMAD_TASK_DIR/kolo/progress/agent" stacks "$NOMAD_TASK_DIR/kolo/progress"`}

// takeStacks takes the stacks of a job. Allocations that have not answered when ctx ends
// are in the result, with the reason.
func takeStacks(ctx context.Context, from allocations, key identity.JobKey) (*jobStacks, error) {
	all, err := from.running(ctx, key.ID)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no running allocation", key)
	}
	answers := make(chan answer, len(all)) // a late answer blocks no one
	slots := make(chan struct{}, maxAtOnce)
	for i, a := range all {
		go func() {
			select {
			case slots <- struct{}{}:
				report, err := ask(ctx, from, a)
				<-slots
				answers <- answer{i, report, err}
			case <-ctx.Done():
			}
		}()
	}
	job := &jobStacks{Job: key.String(), Taken: time.Now().UTC().Truncate(time.Second), allocations: len(all)}
	problems := make([]error, len(all))
	for i := range problems {
		problems[i] = errSilent
	}
	var ranks []placedRank
	newest, got := uint64(0), collect(ctx, answers, len(all))
	for i := range got {
		newest = max(newest, got[i].report.Generation)
	}
	for _, a := range got {
		problems[a.at] = a.err
		for _, r := range a.report.Ranks {
			ranks = append(ranks, placedRank{Alloc: all[a.at].ID, Node: all[a.at].Node, Rank: r})
		}
		switch ring := a.report.Generation; {
		case a.report.Dropped > 0:
			problems[a.at] = fmt.Errorf("left out %s", processes(a.report.Dropped))
		case ring > 0 && ring < newest: // it has lost its leader, or the ring changes now
			problems[a.at] = fmt.Errorf("its ranks are those of ring %d, and the newest ring is %d", ring, newest)
		}
	}
	for i, err := range problems {
		if err != nil {
			job.Unanswered = append(job.Unanswered, unanswered{Alloc: all[i].ID, Node: printable.Line(all[i].Node), Problem: printable.Line(err.Error())})
		}
	}
	job.group(ranks)
	return job, nil
}

// answer is the answer of an allocation.
type answer struct {
	at     int
	report stacks.Report
	err    error
}

// collect returns the answers that arrive before ctx ends, at most n.
func collect(ctx context.Context, answers <-chan answer, n int) (got []answer) {
	for len(got) < n {
		select {
		case a := <-answers:
			got = append(got, a)
		case <-ctx.Done():
			for len(answers) > 0 {
				got = append(got, <-answers)
			}
			return got
		}
	}
	return got
}

var (
	errSilent  = errors.New("no answer in time")
	errNoAgent = errors.New("the task has no agent of Kolo, or that of an earlier release, or no /bin/sh")
	errLarge   = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
)

// ask asks the first task of an allocation that has an agent.
func ask(ctx context.Context, from allocations, a allocation) (stacks.Report, error) {
	err := errNoAgent
	for _, task := range a.Tasks {
		var report stacks.Report
		if report, err = askTask(ctx, from, a, task); err == nil || !errors.Is(err, errNoAgent) {
			return report, err
		}
	}
	return stacks.Report{}, err
}

func askTask(ctx context.Context, from allocations, a allocation, task string) (stacks.Report, error) {
	out, problem := &capped{most: maxAnswer}, &capped{most: 4 << 10}
	code, err := from.exec(ctx, a, task, collector, out, problem)
	text := strings.TrimSpace(problem.text.String())
	switch {
	case ctx.Err() != nil:
		return stacks.Report{}, errSilent
	case err != nil:
		return stacks.Report{}, explainExec(err)
	case code == 126 || code == 127:
		return stacks.Report{}, errNoAgent
	case code != 0:
		return stacks.Report{}, errors.New(cmp.Or(text, fmt.Sprintf("exit code %d", code)))
	case out.cut:
		return stacks.Report{}, errLarge
	}
	return stacks.Decode(out.text.Bytes())
}

// explainExec adds the capabilities that are likely to be missing.
func explainExec(err error) error {
	if !strings.Contains(err.Error(), nomad.PermissionDeniedErrorContent) && !strings.Contains(err.Error(), "ermission denied") {
		return err
	}
	return fmt.Errorf("%w: the token in NOMAD_TOKEN needs alloc-exec in the job's namespace, and alloc-node-exec for the drivers torch, horovod and raw_exec", err)
}

// capped is a buffer that drops all after a number of bytes. It does not embed the buffer,
// whose other methods have no limit.
type capped struct {
	text bytes.Buffer
	most int
	cut  bool
}

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	room := c.most - c.text.Len()
	c.cut = c.cut || len(p) > room
	c.text.Write(p[:min(len(p), room)])
	return len(p), nil
}

// nomadAllocations asks a real Nomad.
type nomadAllocations struct {
	client    *nomad.Client
	namespace string
}

func (n *nomadAllocations) query(ctx context.Context) *nomad.QueryOptions {
	return (&nomad.QueryOptions{Namespace: n.namespace}).WithContext(ctx)
}

// failed explains why a request to Nomad failed.
func (n *nomadAllocations) failed(what string, err error) error {
	var unanswered *url.Error
	if errors.As(err, &unanswered) {
		return fmt.Errorf("nomad does not answer; is it running at %s (NOMAD_ADDR)? %w", n.client.Address(), unanswered.Err)
	}
	return fmt.Errorf("ask Nomad for %s: %w", what, err)
}

// training are the task drivers that are Kolo's.
var training = []string{"horovod", "torch"}

func (n *nomadAllocations) running(ctx context.Context, job string) ([]allocation, error) {
	info, _, err := n.client.Jobs().Info(job, n.query(ctx))
	if err != nil {
		return nil, n.failed("the job", err)
	}
	stubs, _, err := n.client.Jobs().Allocations(job, false, n.query(ctx))
	if err != nil {
		return nil, n.failed("the job's allocations", err)
	}
	tasks := map[string][]string{}
	for _, g := range info.TaskGroups {
		if g.Name != nil {
			tasks[*g.Name] = tasksOf(g)
		}
	}
	var all []allocation
	for _, s := range stubs {
		if s.ClientStatus == nomad.AllocClientStatusRunning {
			all = append(all, allocation{ID: s.ID, NodeID: s.NodeID, Node: s.NodeName, Tasks: tasks[s.TaskGroup]})
		}
	}
	return all, nil
}

// tasksOf returns the tasks of a group that may train: those of Kolo's drivers or, if there
// are none, all main tasks, because any may be kolo-worker.
func tasksOf(g *nomad.TaskGroup) []string {
	var ours, others []string
	for _, t := range g.Tasks {
		switch {
		case slices.Contains(training, t.Driver):
			ours = append(ours, t.Name)
		case t.Lifecycle == nil:
			others = append(others, t.Name)
		}
	}
	if len(ours) > 0 {
		return ours
	}
	return others
}

// exec implements allocations. Nomad's client does not end with ctx while it connects.
func (n *nomadAllocations) exec(ctx context.Context, a allocation, task string, command []string, stdout, stderr io.Writer) (int, error) {
	return n.client.Allocations().Exec(ctx, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, Namespace: n.namespace}, task, false, command,
		strings.NewReader(""), stdout, stderr, nil, n.query(ctx))
}
