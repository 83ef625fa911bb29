// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package workerflags parses kolo-worker's command line: flags with the names of the fields
// in the task driver's config, and then the command.
//
//	args ── Parse ──> Flags ── Given ──> what a jobspec's config would give ──> taskconfig.Read
//
// It starts nothing and reads nothing of the machine, so that a job can be checked where no
// worker runs.
package workerflags

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// KillTimeout is Nomad's default for a task's kill_timeout.
const KillTimeout = 5 * time.Second

// notFlags are fields of a task's config that kolo-worker gets in other ways: the command
// after the flags, leave_timeout as a part of kill_timeout, and work_dir from the task
// driver that starts kolo-worker, because slots start in its directory.
var notFlags = []string{"command", "args", "leave_timeout", "work_dir"}

// Framework is the interface to a training framework's settings.
type Framework interface {
	taskconfig.Framework
	// Settings returns the framework's own settings: fields, and the fields of blocks by
	// name of the block.
	Settings() (fields []settings.Setting, blocks map[string][]settings.Setting)
}

// Flags are the flags of kolo-worker, with the names of the fields in the task driver's
// config. Flags of a block have the block's name and a dot in front.
type Flags struct {
	Framework Framework
	// Kill is the task's kill_timeout, 0 if not given.
	Kill time.Duration
	// Command is the program of a slot with its arguments.
	Command []string

	texts map[string]string
}

// option is one flag.
type option struct {
	name string
	settings.Setting
}

// options returns the flags for a framework's own settings.
func options(f Framework) []option {
	fields, blocks := f.Settings()
	list := named("", fields)
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		list = append(list, named(name+".", blocks[name])...)
	}
	return list
}

func named(prefix string, list []settings.Setting) []option {
	var out []option
	for _, s := range list {
		out = append(out, option{prefix + s.Name, s})
	}
	return out
}

// commonOptions returns the flags of all frameworks.
func commonOptions() []option {
	list := slices.DeleteFunc(taskconfig.Settings(), func(s settings.Setting) bool { return slices.Contains(notFlags, s.Name) })
	for i := range list {
		if list[i].Name == "service" {
			list[i].Default = "the job's name"
		}
	}
	return named("", list)
}

// text is a flag whose value is parsed later, when the framework is known.
type text struct {
	name   string
	into   map[string]string
	isBool bool
}

func (t text) String() string     { return "" }
func (t text) IsBoolFlag() bool   { return t.isBool }
func (t text) Set(s string) error { t.into[t.name] = s; return nil }

// Parse parses the command line. Names may have - for _. taskconfig.Read checks the values.
// The error is flag.ErrHelp, or a problem.Problem whose field is the flag's name, or "" if
// it concerns no single flag.
func Parse(frameworks []Framework, args []string) (*Flags, error) {
	o := &Flags{texts: map[string]string{}}
	names := map[string]Framework{}
	set := flag.NewFlagSet("kolo-worker", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	declare := func(name string, kind settings.Kind) {
		set.Var(text{name, o.texts, kind == settings.Bool}, name, "")
	}
	for _, s := range commonOptions() {
		declare(s.name, s.Kind)
	}
	for old := range settings.Renamed {
		declare(old, settings.Text)
	}
	for _, f := range frameworks {
		names[f.Name()] = f
		for _, s := range options(f) {
			declare(s.name, s.Kind)
		}
	}
	framework := set.String("framework", "", "")
	kill := settings.Time(&o.Kill, "kill_timeout", 0, 0, "")
	declare(kill.Name, kill.Kind)
	args = underscored(args)
	if err := set.Parse(args); err != nil {
		return nil, explain(err, set, args)
	}
	o.Command = set.Args()
	if at := slices.Index(args, "--"); len(o.Command) > 0 && (at < 0 || len(o.Command) != len(args)-at-1) {
		return nil, problem.New("", nil, fmt.Sprintf("%q is not a flag", o.Command[0]), "give values of flags with =, and the command after --")
	}
	var found bool
	if o.Framework, found = names[*framework]; !found {
		return nil, problem.New("framework", *framework, "must be "+strings.Join(slices.Sorted(maps.Keys(names)), " or "), "")
	}
	if text, given := o.texts[kill.Name]; given {
		delete(o.texts, kill.Name) // not a field of the config
		if err := kill.Set(text); err != nil {
			return nil, problem.Of(kill.Name, text, err)
		}
	}
	if len(o.Command) == 0 {
		return nil, problem.New("", nil, "no command given", "write it after the flags: kolo-worker --framework=torch -- python3 train.py")
	}
	return o, nil
}

// underscored rewrites the names of flags as they are declared.
func underscored(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		bare := strings.TrimLeft(name, "-")
		args[i] = name[:len(name)-len(bare)] + strings.ReplaceAll(bare, "-", "_")
		if given {
			args[i] += "=" + value
		}
	}
	return args
}

// elsewhere states where to set those fields of a task's config that are not flags.
var elsewhere = map[string]string{
	"leave_timeout": "give the task's kill_timeout as --kill_timeout",
	"work_dir":      "set it in the task's config (docker, exec, raw_exec: work_dir, podman: working_dir), slots start where kolo-worker does",
}

// explain turns an error of set.Parse(args) into a problem.
func explain(err error, set *flag.FlagSet, args []string) error {
	const remedy = "kolo-worker -help lists the flags, the command follows --"
	name, undefined := settings.Undefined(set, args, err)
	switch {
	case undefined:
		return problem.New(name, nil, "there is no such flag", cmp.Or(elsewhere[name], remedy))
	case errors.Is(err, flag.ErrHelp):
		return err
	}
	return problem.New("", nil, err.Error(), remedy)
}

// Has reports whether a flag is given.
func (o *Flags) Has(name string) bool {
	_, given := o.texts[name]
	return given
}

// Given returns the values of the flags in the form of a jobspec's config. It does not
// parse values of flags that belong to another framework, because taskconfig.Read refuses
// these flags anyway.
func (o *Flags) Given(env map[string]string) map[string]any {
	given := map[string]any{"command": o.Command[0], "args": anys(o.Command[1:])}
	kinds := map[string]settings.Kind{}
	for _, s := range append(commonOptions(), options(o.Framework)...) {
		kinds[s.name] = s.Kind
	}
	for name, value := range o.texts {
		into, field := given, name
		if block, rest, found := strings.Cut(name, "."); found {
			if given[block] == nil {
				given[block] = map[string]any{}
			}
			into, field = given[block].(map[string]any), rest
		}
		into[field] = typed(kinds[name], value)
	}
	service, _ := given["service"].(string)
	given["service"] = cmp.Or(service, env["NOMAD_JOB_NAME"])
	return given
}

// typed returns a text as the value that HCL would produce. A text that is not of the kind
// stays as it is.
func typed(kind settings.Kind, text string) any {
	switch kind {
	case settings.Number:
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return v
		}
	case settings.Bool:
		if v, err := strconv.ParseBool(text); err == nil {
			return v
		}
	case settings.Text, settings.List:
	}
	return text
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
