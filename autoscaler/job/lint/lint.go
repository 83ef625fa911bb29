// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"

	"github.com/kolo-nomad/kolo/autoscaler/text/nesting"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// Severity is the severity of a finding.
type Severity string

// The severities of findings.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one problem of a job.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	// Rule identifies the check, for programs.
	Rule string `json:"rule"`
	// Message describes the problem and its remedy.
	Message string `json:"message"`
}

// String returns the finding in the format of compilers.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s [%s]", f.File, f.Line, f.Column, f.Severity, f.Message, f.Rule)
}

// MaxKillTimeout is Nomad's default for the client's max_kill_timeout.
const MaxKillTimeout = 30 * time.Second

// Options describes the job to check.
type Options struct {
	// Path is the name of the job's file, and Text its content.
	Path string
	Text []byte
	// Vars sets variables ("name=value"), VarFiles lists variable files, and Env is the
	// environment, in which NOMAD_VAR_… set variables too.
	Vars, VarFiles, Env []string
	// ReadFiles lets functions in the job read files.
	ReadFiles bool
	// MaxKillTimeout is the longest kill_timeout that clients grant.
	MaxKillTimeout time.Duration
	// QueuedPools lists the node pools that have a batch_queue (Nomad 2.1).
	QueuedPools []string
}

const (
	// maxFindings bounds the findings that are listed for one job.
	maxFindings = 100
	// maxGroups and maxTasks bound the groups, and the tasks of each group, that are
	// checked.
	maxGroups, maxTasks = 256, 64
)

// Check returns the problems of a job in the order of its lines, or an error if the job
// cannot be read.
func Check(o Options) (findings []Finding, err error) {
	defer func() {
		// HCL functions have panicked on unusual values.
		if r := recover(); r != nil {
			findings, err = nil, fmt.Errorf("%s: cannot be evaluated: %v", o.Path, r)
		}
	}()
	job, src, err := read(o)
	if err != nil {
		return nil, err
	}
	c := &checker{o: o, src: src, job: job}
	c.check()
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	c.findings = slices.Compact(c.findings)
	if more := len(c.findings) - maxFindings; more > 0 {
		c.findings = append(c.findings[:maxFindings], Finding{File: o.Path, Line: 1, Column: 1, Severity: Error, Rule: "more",
			Message: fmt.Sprintf("there are %d more findings; correct those above first", more)})
	}
	return c.findings, nil
}

// read parses a job, and records the positions of its blocks.
func read(o Options) (*api.Job, *source, error) {
	if strings.HasPrefix(strings.TrimSpace(string(o.Text)), "{") {
		return nil, nil, fmt.Errorf("%s: is JSON; only HCL is read", o.Path)
	}
	if err := bound(o); err != nil {
		return nil, nil, err
	}
	src, err := parseSource(o.Path, o.Text)
	if err != nil {
		return nil, nil, err
	}
	job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{
		Path: o.Path, Body: o.Text, AllowFS: o.ReadFiles, Strict: true,
		ArgVars: o.Vars, VarFiles: o.VarFiles, Envs: o.Env,
	})
	if err != nil {
		// An error about a variable as a whole has no position.
		return nil, nil, errors.New(printable.Text(short(strings.ReplaceAll(err.Error(), "<nil>: ", o.Path+": "), 2000)))
	}
	return job, src, nil
}

// bound refuses texts that could crash HCL's parser.
func bound(o Options) error {
	if err := nesting.File(o.Path, o.Text); err != nil {
		return err
	}
	for _, path := range o.VarFiles {
		text, err := os.ReadFile(path)
		if err == nil {
			err = nesting.File(path, text)
		}
		if err != nil {
			return fmt.Errorf("-var-file: %w", err)
		}
	}
	for _, v := range slices.Concat(o.Vars, o.Env) {
		name, value, given := strings.Cut(v, "=")
		if !given {
			return fmt.Errorf("-var %q: write name=value", short(v, 100))
		}
		if err := nesting.File("the variable "+short(name, 100), []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// checker collects the findings of one job.
type checker struct {
	o        Options
	src      *source
	job      *api.Job
	findings []Finding
}

func (c *checker) check() {
	c.koloBlock()
	c.batchQueue()
	var workers []*worker
	for _, g := range c.job.TaskGroups[:min(len(c.job.TaskGroups), maxGroups)] {
		for _, t := range g.Tasks[:min(len(g.Tasks), maxTasks)] {
			if w := c.worker(g, t); w != nil {
				workers = append(workers, w)
			}
		}
	}
	if len(workers) == 0 {
		return
	}
	c.jobType()
	for _, w := range workers {
		c.checkGroup(w)
		c.checkTask(w)
	}
	c.checkCounts(workers)
}

// add records a finding at the given position.
func (c *checker) add(s Severity, rule string, at hcl.Range, format string, args ...any) {
	message := printable.Line(fmt.Sprintf(format, args...))
	c.findings = append(c.findings, Finding{File: c.o.Path, Line: at.Start.Line, Column: at.Start.Column, Severity: s, Rule: rule, Message: message})
}

func (c *checker) errorf(rule string, at hcl.Range, format string, args ...any) {
	c.add(Error, rule, at, format, args...)
}

func (c *checker) warnf(rule string, at hcl.Range, format string, args ...any) {
	c.add(Warning, rule, at, format, args...)
}

// short returns a text of at most n bytes.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}

func deref[T any](p *T, or T) T {
	if p == nil {
		return or
	}
	return *p
}
