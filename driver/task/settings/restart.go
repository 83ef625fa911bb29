// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// Values of Restart.Mode.
const (
	ModeInProcess = "in-process"
	ModeRestart   = "restart"
)

// Restart configures how lost processes are replaced: by spare hosts or, if processes can't
// change their ring, by other processes on the same slots. It is a part of the agent's
// configuration.
type Restart struct {
	// Mode is ModeInProcess or ModeRestart. If empty, the first process's behaviour
	// decides.
	Mode string `json:"mode,omitempty"`
	// Spares is how many processes of each slot are kept ready next to the one that trains.
	Spares int `json:"spares,omitempty"`
	// SpareHosts is the number of hosts that wait outside the ring, ready to replace a lost one.
	SpareHosts int        `json:"spare_hosts,omitempty"`
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
}

// Checkpoint configures how a process is asked to write its checkpoint and to end.
type Checkpoint struct {
	// Signal is the name of the signal to send, empty for the default; see Number.
	Signal string `json:"signal,omitempty"`
	// File is created as the request. Path is a file or directory that changes with each
	// checkpoint.
	File string `json:"file,omitempty"`
	Path string `json:"path,omitempty"`
	// Wait bounds the time until the process has ended, or Path has changed.
	Wait Duration `json:"wait,omitempty"`
}

// Number returns the signal that asks a process for its checkpoint, 0 for none. The default
// is SIGTERM, or none if File or Path is set.
func (c Checkpoint) Number() syscall.Signal {
	if c.Signal == "" && (c.File != "" || c.Path != "") {
		return 0
	}
	if c.Signal == "" {
		return syscall.SIGTERM
	}
	return unix.SignalNum(c.Signal)
}

// Bind sets every field to its default and returns the settings that fill them: the fields
// of a task's config, and the fields of its checkpoint block.
func (r *Restart) Bind() (fields, checkpoint []Setting) {
	c := &r.Checkpoint
	fields = []Setting{
		Func("mode", Text, "what the script does first", "whether processes change their ring (in-process) or others take their places (restart)",
			func(text string) error {
				if text != ModeInProcess && text != ModeRestart {
					return fmt.Errorf("must be %q or %q", ModeInProcess, ModeRestart)
				}
				r.Mode = text
				return nil
			}),
		Func("spares", Number, "0", "processes of each slot that are kept ready for a failure, in restart mode", func(text string) error {
			if text != "0" && text != "1" {
				return errors.New("must be 0 or 1")
			}
			r.Spares = int(text[0] - '0')
			return nil
		}),
		Count(&r.SpareHosts, "spare_hosts", 0, 0, "hosts that wait outside the ring, ready to replace a lost one; not in restart mode"),
	}
	checkpoint = []Setting{
		Func("signal", Text, "SIGTERM", "signal that asks a process for a checkpoint and its end", c.setSignal),
		place(&c.File, "file", "file that is created as the request"),
		place(&c.Path, "path", "file or directory that changes with each checkpoint"),
		Time((*time.Duration)(&c.Wait), "wait", time.Minute, time.Second, "longest time that a checkpoint takes"),
	}
	return fields, checkpoint
}

// uncaught are signals that a process cannot handle.
var uncaught = []string{"SIGKILL", "SIGSTOP"}

func (c *Checkpoint) setSignal(text string) error {
	switch {
	case slices.Contains(uncaught, text):
		return problem.Problem{Text: "no process can react to it", Remedy: "use one that the script handles, such as SIGUSR1"}
	case unix.SignalNum(text) == 0:
		return problem.Problem{Text: "is not the name of a signal", Remedy: `write it like "SIGUSR1"`}
	}
	c.Signal = text
	return nil
}

// place declares a file name that is empty by default. A relative name is below the
// directory that processes start in.
func place(p *string, name, doc string) Setting {
	return Func(name, Text, "none", doc, func(text string) error {
		switch {
		case strings.ContainsRune(text, 0):
			return errors.New("has a zero byte")
		case filepath.Clean(text) == "/" || filepath.Clean(text) == ".":
			return errors.New("must name a file")
		case !filepath.IsLocal(text) && !filepath.IsAbs(text):
			return problem.Problem{Text: "leads out of the task's directory", Remedy: "use an absolute path for a file on a volume"}
		}
		*p = filepath.Clean(text)
		return nil
	})
}

// CheckpointBlock is the name of the block of Checkpoint.
const CheckpointBlock = "checkpoint"

// Read sets r from a jobspec's values.
func (r *Restart) Read(given map[string]any) problem.List {
	fields, checkpoint := r.Bind()
	block, _ := given[CheckpointBlock].(map[string]any)
	problems := slices.Concat(Read(fields, given, "config"), Read(checkpoint, block, "config."+CheckpointBlock))
	if len(problems) == 0 {
		return r.Check()
	}
	return problems
}

// Check returns a problem for each setting that has no effect.
func (r *Restart) Check() (problems problem.List) {
	text := fmt.Sprintf("has no effect with mode = %q, where processes stay", ModeInProcess)
	remedy := fmt.Sprintf("leave it out, or set mode = %q", ModeRestart)
	switch c := r.Checkpoint; {
	case r.Mode == ModeRestart && r.SpareHosts > 0:
		problems.Add("config.spare_hosts", r.SpareHosts, fmt.Sprintf("has no effect with mode = %q, where a process is started for one rank", ModeRestart),
			"leave it out; spares = 1 keeps processes ready on the hosts of the ring")
	case r.Mode != ModeInProcess:
	case r.Spares > 0:
		problems.Add("config.spares", r.Spares, text, remedy)
	case c.Signal != "" || c.File != "" || c.Path != "":
		problems.Add("config."+CheckpointBlock, nil, text, remedy)
	}
	return problems
}
