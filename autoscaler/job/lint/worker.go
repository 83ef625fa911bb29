// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
	horovod "github.com/kolo-nomad/kolo/driver/framework/horovod/options"
	torch "github.com/kolo-nomad/kolo/driver/framework/torch/options"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
	"github.com/kolo-nomad/kolo/driver/task/workerflags"
)

// frameworks lists all frameworks that Kolo supports.
var frameworks = []workerflags.Framework{torch.Task{}, horovod.Task{}}

// program is the name of kolo-worker.
const program = "kolo-worker"

// worker is a task that trains, run by one of Kolo's task drivers or by kolo-worker.
type worker struct {
	group *api.TaskGroup
	task  *api.Task
	// steps is the path to the task's block.
	steps []step
	// native is true if a task driver of Kolo runs the task.
	native    bool
	framework workerflags.Framework
	// flags holds kolo-worker's flags; nil if they cannot be read.
	flags *workerflags.Flags
	// given holds the settings in the task's config or flags. unknown names the
	// settings that only a client knows.
	given   map[string]any
	unknown map[string]bool
	// read is the result of package taskconfig; nil if there was nothing to read.
	// refused is true if taskconfig would refuse the task.
	read    *taskconfig.Task
	refused bool
}

// to returns the steps to a block or an argument of the task.
func (w *worker) to(names ...string) []step { return extend(w.steps, names...) }

// toGroup returns the steps to a block or an argument of the task's group.
func (w *worker) toGroup(names ...string) []step { return extend(w.steps[:1], names...) }

func extend(steps []step, names ...string) []step {
	steps = slices.Clone(steps)
	for _, name := range names {
		steps = append(steps, step{name: name})
	}
	return steps
}

// worker returns the training in a task, or nil if the task does not use Kolo.
func (c *checker) worker(g *api.TaskGroup, t *api.Task) *worker {
	w := &worker{group: g, task: t, steps: []step{{name: "group", label: deref(g.Name, "")}, {name: "task", label: t.Name}}, unknown: map[string]bool{}}
	for _, f := range frameworks {
		if t.Driver == f.Name() {
			w.native, w.framework = true, f
			c.readConfig(w)
			return w
		}
	}
	args, found := workerArgs(t.Config)
	if !found {
		return nil
	}
	if args == nil {
		c.warnf("flags", c.src.at(w.to("config")...), "%s is started by another program, so that its flags cannot be read here; make it the entrypoint, or the command", program)
		return w
	}
	c.readFlags(w, args)
	return w
}

// workerArgs returns the arguments of kolo-worker in a task's config; nil if
// kolo-worker is called inside another program's argument.
func workerArgs(config map[string]any) (args []string, found bool) {
	line := slices.Concat(texts(config["entrypoint"]), texts(config["command"]), texts(config["args"]))
	for i, arg := range line {
		switch {
		case path.Base(arg) == program:
			return append([]string{}, line[i+1:]...), true
		case strings.HasPrefix(strings.TrimLeft(arg, "-"), "framework=") && strings.HasPrefix(arg, "-"): // of an image with kolo-worker as its entry point
			return line[i-flagsBefore(line[:i]):], true
		case arg == "--":
			return nil, false
		case strings.Contains(arg, program):
			return nil, true
		}
	}
	return nil, false
}

// flagsBefore returns the number of flags at the end of a list.
func flagsBefore(line []string) (n int) {
	for n < len(line) && strings.HasPrefix(line[len(line)-1-n], "-") {
		n++
	}
	return n
}

// texts returns the strings of a value that is one string or a list.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			out[i] = fmt.Sprint(e)
		}
		return out
	}
	return nil
}

// onlyThere reports whether a text has a part that only a client knows.
func onlyThere(s string) bool { return strings.Contains(s, "${") }

// readFlags checks kolo-worker's command line with kolo-worker's own code.
func (c *checker) readFlags(w *worker, args []string) {
	known := make([]string, 0, len(args))
	end := slices.Index(args, "--")
	for i, arg := range args {
		if (end < 0 || i < end) && onlyThere(arg) {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			w.unknown[strings.ReplaceAll(name, "-", "_")] = true
			continue
		}
		known = append(known, arg)
	}
	if w.unknown["framework"] {
		return
	}
	flags, err := workerflags.Parse(frameworks, known)
	if err != nil {
		p, _ := errors.AsType[problem.Problem](err) // or a request for help
		c.errorf("flags", c.flagAt(w, p.Field), "%s: %v", program, err)
		return
	}
	w.flags, w.framework = flags, flags.Framework
	w.given = flags.Given(map[string]string{"NOMAD_JOB_NAME": c.jobName()})
	c.readTask(w)
}

// flagAt returns the position of a flag of kolo-worker, or else of its command line.
func (c *checker) flagAt(w *worker, name string) hcl.Range {
	config := c.src.at(w.to("config", "args")...)
	if slices.Contains([]string{"", "command", "args"}, name) { // no flags
		return config
	}
	for _, form := range []string{"--" + name, "-" + name, "--" + strings.ReplaceAll(name, "_", "-"), "-" + strings.ReplaceAll(name, "_", "-")} {
		if at := c.src.element(form, w.to("config", "args")...); at != config {
			return at
		}
	}
	return config
}

func (c *checker) jobName() string { return deref(c.job.Name, deref(c.job.ID, "")) }

// readConfig checks the config of a task of Kolo's drivers with the driver's own code.
func (c *checker) readConfig(w *worker) {
	fields, blocks := w.framework.Settings()
	var isolation string
	own := settings.OneOf(&isolation, "isolation", []string{"exec", "none"}, "")
	fields = append(append(fields, taskconfig.Settings()...), own)
	foreign, foreignBlocks := w.framework.Foreign()
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	names = slices.Concat(names, foreign, slices.Collect(maps.Keys(settings.Renamed)))
	blockNames := slices.Concat(slices.Collect(maps.Keys(blocks)), foreignBlocks)

	w.given = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(w.task.Config)) {
		value := w.task.Config[name]
		at := c.src.at(w.to("config", name)...)
		switch {
		case slices.Contains(names, name):
			w.give(w.given, name, name, value, slices.Contains(foreign, name))
		case !slices.Contains(blockNames, name):
			c.errorf("config", at, "the driver %s has no field %q in its config%s", w.task.Driver, name, suggest.Hint("", name, append(names, blockNames...)))
		default:
			c.readBlock(w, name, value, blocks[name])
		}
	}
	for _, p := range settings.Read([]settings.Setting{own}, w.given, "config") {
		c.errorf("config", c.fieldAt(w, p.Field), "%v", p)
	}
	c.readTask(w)
}

// give copies a value, unless only a client knows it.
func (w *worker) give(to map[string]any, name, field string, value any, text bool) {
	switch s, isText := value.(string); {
	case isText && onlyThere(s) && field != "command" && field != "service":
		w.unknown[field] = true
	case text && value != nil:
		to[name] = fmt.Sprint(value)
	default:
		to[name] = number(value)
	}
}

// number returns a value in the form that the driver receives, with one type for all
// numbers.
func number(v any) any {
	switch n := v.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	}
	return v
}

// readBlock copies the settings of a block in a task's config. own lists the block's
// settings; it is empty for a block of another framework.
func (c *checker) readBlock(w *worker, name string, value any, own []settings.Setting) {
	list, isList := value.([]map[string]any)
	if one, ok := value.(map[string]any); ok {
		list, isList = []map[string]any{one}, true
	}
	if !isList {
		c.errorf("config", c.src.at(w.to("config", name)...), "%s is a block: write %s { }", name, name)
		return
	}
	if len(list) > 1 {
		c.errorf("config", c.src.at(append(w.to("config"), step{name: name, nth: 1})...), "there are %d %s blocks; keep one", len(list), name)
	}
	var names []string
	for _, s := range own {
		names = append(names, s.Name)
	}
	block := map[string]any{}
	for field, v := range list[0] {
		if own != nil && !slices.Contains(names, field) {
			c.errorf("config", c.src.at(w.to("config", name, field)...), "the block %s has no field %q%s", name, field, suggest.Hint("", field, names))
			continue
		}
		w.give(block, field, name+"."+field, v, own == nil)
	}
	w.given[name] = block
}

// readTask checks the settings with the code that checks them on the client. It reports
// each problem at the position of its field.
func (c *checker) readTask(w *worker) {
	t, problems := taskconfig.Read(w.framework, w.given, c.surroundings(w))
	w.read = t
	for _, p := range problems {
		if w.unknown[strings.TrimPrefix(p.Field, inConfig)] {
			continue
		}
		w.refused = true
		c.errorf(ruleOf(p.Field), c.fieldAt(w, p.Field), "%v", p)
	}
}

// inConfig is the prefix of the names of config fields.
const inConfig = "config."

// ruleOf returns the rule for a field. Most config fields share one rule.
func ruleOf(field string) string {
	switch name := field[strings.LastIndexByte(field, '.')+1:]; name {
	case "identity", "service", "port", "device":
		return name
	}
	return "config"
}

// fieldAt returns the position of a field of the task, or else of the nearest block
// around it.
func (c *checker) fieldAt(w *worker, field string) hcl.Range {
	name, config := strings.CutPrefix(field, inConfig)
	switch {
	case field == "identity":
		return c.src.at(w.steps...) // there may be several identities
	case config && !w.native:
		return c.flagAt(w, name)
	}
	return c.src.at(append(w.to(), stepsOf(field)...)...)
}

// gpus returns the number of GPUs that the task reserves.
func (w *worker) gpus() int {
	if w.task.Resources == nil {
		return 0
	}
	n := 0
	for _, d := range w.task.Resources.Devices {
		if slices.Contains(strings.Split(d.Name, "/"), "gpu") {
			n += int(min(deref(d.Count, 1), maxGPUs))
		}
	}
	return min(n, maxGPUs)
}

// maxGPUs is more than a client has.
const maxGPUs = 1024

// reservation returns the variables that the device plugin would set for n GPUs.
func reservation(n int) map[string]string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "GPU-" + strconv.Itoa(i)
	}
	return map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(ids, ",")}
}
