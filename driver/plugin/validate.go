// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/account"
	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/gpu"
	"github.com/kolo-nomad/kolo/driver/isolation"
	"github.com/kolo-nomad/kolo/driver/settings"
)

// plan is a checked task configuration with everything decided.
type plan struct {
	isolation string
	gpus      []string
	// devices are the variables that Nomad's devices gave.
	devices map[string]string
	agent   agentconfig.Config
	// tokens are identities that Nomad gave in the environment alone, by the
	// host path of the file to put them in.
	tokens map[string]string
}

// validate checks a task's configuration against its host environment and decides
// all that was left open. Its error is a *ConfigError that names every field in
// question, its value and what to do. It changes nothing.
func validate(framework Framework, given map[string]any, s *hostEnvironment) (*plan, error) {
	var p problems
	out := &plan{gpus: gpu.Reserved(s.devices), devices: s.devices, tokens: map[string]string{}}
	a := &out.agent

	tc := &TaskConfig{}
	p.add(settings.Read(tc.bind(), given, ""))
	out.isolation = tc.Isolation
	checkIsolation(&p, tc.Isolation, s)
	v := isolation.HostView(s.taskDir)
	if out.isolation == isolationExec {
		v = s.layout().View()
	}
	p.add(gpu.Check(out.gpus))
	p.add(a.Training.Read(given, max(len(out.gpus), 1)))
	checkSlots(&p, a.Slots, len(out.gpus))
	env, wrong := framework.Environment(given)
	a.Env = env
	p.add(wrong)
	checkCommand(&p, tc, a, s, v)
	checkNetwork(&p, s)
	checkService(&p, tc, a, s)
	checkInterface(&p, tc, a, s)
	checkIdentity(&p, out, s, v)
	fillFacts(&p, a, s.env)
	return out, p.err()
}

func checkIsolation(p *problems, mode string, s *hostEnvironment) {
	switch {
	case mode == isolationNone && !s.plugin.AllowIsolationNone:
		p.addf(`isolation = "none": not allowed on this client; use "exec", or set allow_isolation_none = true in the config of plugin "nomad-driver-horovod"`)
	case mode == isolationExec && s.execIsolation != nil:
		p.addf(`isolation = "exec": not possible on this client (%v); use "none" where the client allows it`, s.execIsolation)
	}
	if mode == isolationExec {
		p.add(s.layout().Check())
	}
	if mode == isolationNone {
		for _, m := range s.mounts {
			if m.TaskPath != m.HostPath {
				p.addf(`volume_mount at %q: needs isolation = "exec"; with "none" the task finds it at %q`, m.TaskPath, m.HostPath)
			}
		}
	}
}

// checkSlots compares slots with GPUs. The plugin does not know the group's
// count, so that np above what the group can give is found by the agent's
// elastic_timeout only.
func checkSlots(p *problems, slots, gpus int) {
	if gpus > 0 && slots > gpus {
		p.addf("slots = %d: only %d GPUs are reserved, and two processes on one GPU cannot form a ring with NCCL; reserve more or leave slots out", slots, gpus)
	}
}

// launchers start processes and form the ring themselves, once in each
// allocation.
var launchers = []string{"horovodrun", "mpirun", "mpiexec", "torchrun"}

// checkCommand finds the command and, for Python, the script, where the task
// will see them.
func checkCommand(p *problems, tc *TaskConfig, a *agentconfig.Config, s *hostEnvironment, v isolation.View) {
	a.Args, a.Dir = tc.Args, v.CWD
	if tc.Command == "" {
		p.addf(`command: is not set; set it to the program that trains, for example "python3" with args = ["${NOMAD_TASK_DIR}/train.py"]`)
		return
	}
	if slices.Contains(launchers, filepath.Base(tc.Command)) {
		p.addf("command = %q: this driver takes its place; set command to the program that trains, and np, min_np and max_np instead of its flags", tc.Command)
		return
	}
	file, taskPath, found := lookCommand(tc.Command, s, v)
	a.Command = taskPath
	if !found {
		p.addf("command = %q: not found in %s%s", tc.Command, strings.Join(commandDirs(s.env), ", "), bindHint(v))
		return
	}
	if err := s.executable(file); errors.Is(err, fs.ErrNotExist) {
		p.addf("command = %q: no such file%s", tc.Command, bindHint(v))
		return
	} else if err != nil {
		p.addf("command = %q: the task's user %q cannot run it (%v); change its mode or the task's user = …", tc.Command, s.user, err)
	}

	script := pythonScript(tc.Command, tc.Args)
	if script == "" {
		return
	}
	file, _ = v.Locate(script)
	if err := s.readable(file); errors.Is(err, fs.ErrNotExist) {
		p.addf("args: script %q does not exist%s; bring it with an artifact, template or volume_mount block", script, bindHint(v))
	} else if err != nil {
		p.addf("args: script %q cannot be read by the task's user %q (%v); change its mode or the task's user = …", script, s.user, err)
	}
}

// bindHint reminds of the reason why something that is on the host is not seen.
func bindHint(v isolation.View) string {
	if !v.Isolated {
		return ""
	}
	return ` in the task's isolated file system (bind_paths in the config of plugin "nomad-driver-horovod" says what of the host is in it)`
}

// commandDirs are the directories searched for a command without a slash.
func commandDirs(env map[string]string) []string {
	path := env["PATH"]
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return filepath.SplitList(path)
}

// lookCommand finds a command as a shell would in the task's view.
func lookCommand(command string, s *hostEnvironment, v isolation.View) (file account.Path, taskPath string, found bool) {
	if strings.Contains(command, "/") {
		file, taskPath = v.Locate(command)
		return file, taskPath, true
	}
	for _, dir := range commandDirs(s.env) {
		file, taskPath = v.Locate(filepath.Join(dir, command))
		if s.executable(file) == nil {
			return file, taskPath, true
		}
	}
	return account.Path{}, "", false
}

// pythonScript is the script that a Python command line runs, "" if it runs
// none (-m, -c) or is no Python.
func pythonScript(command string, args []string) string {
	if !strings.HasPrefix(filepath.Base(command), "python") {
		return ""
	}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-W" || arg == "-X": // take a value
			i++
		case strings.HasPrefix(arg, "-m") || strings.HasPrefix(arg, "-c"), arg == "-":
			return ""
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}

// checkNetwork refuses network namespaces. In a bridge only the group's own ports
// are mapped, and the processes of a ring listen at ports that Gloo picks.
func checkNetwork(p *problems, s *hostEnvironment) {
	if s.ownNetwork {
		p.addf(`network mode: the group has a network of its own ("bridge", "none" or "cni/…"), across which no ring can form, because its processes listen at ports of their own choice; set mode = "host" in the group's network block, or leave mode out`)
	}
}

func checkService(p *problems, tc *TaskConfig, a *agentconfig.Config, s *hostEnvironment) {
	a.Service = tc.Service
	if tc.Service == "" {
		p.addf(`service: is not set; add a service block with provider = "nomad" and a port to the group, and set service to its name: workers find each other by it`)
	}
	label := tc.Port
	var port string
	switch labels := portLabels(s.env); {
	case label != "":
		if port = s.env["NOMAD_PORT_"+cleanLabel(label)]; port == "" {
			p.addf("port = %q: the group has no port with this label%s", label, listed(labels))
			return
		}
	case len(labels) == 0:
		p.addf(`port: the group reserves none; add network { port "kolo" {} } to the group and port = "kolo" to its service block`)
		return
	case len(labels) == 1:
		port = s.env["NOMAD_PORT_"+labels[0]]
	default:
		if port = s.env["NOMAD_PORT_kolo"]; port == "" {
			p.addf(`port: the group has several and none is labelled "kolo"; set port to the label of the service's port%s`, listed(labels))
			return
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		p.addf("port: Nomad gave %q as its number; expected 1 to 65535", port)
		return
	}
	// Without an address Go listens for both families, or for IPv4 alone where
	// the machine has no IPv6. The service may have an address of either.
	a.Listen = ":" + port
}

// portLabels lists the group's ports as they appear in variable names.
func portLabels(env map[string]string) []string {
	var labels []string
	for key := range env {
		if label, ok := strings.CutPrefix(key, "NOMAD_PORT_"); ok {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels
}

// cleanLabel is what Nomad makes of a port label in a variable name.
func cleanLabel(label string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, label)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "; there are none"
	}
	return "; there are: " + strings.Join(names, ", ")
}

func checkInterface(p *problems, tc *TaskConfig, a *agentconfig.Config, s *hostEnvironment) {
	a.Interface = tc.Interface
	where := "interface"
	if a.Interface == "" {
		a.Interface, where = s.plugin.Interface, `interface (of plugin "nomad-driver-horovod")`
	}
	if a.Interface == "" {
		return
	}
	names, err := s.interfaces()
	if err != nil {
		p.addf("%s = %q: cannot list the interfaces that the task sees: %v", where, a.Interface, err)
		return
	}
	if !slices.Contains(names, a.Interface) {
		p.addf("%s = %q: no such network interface%s", where, a.Interface, listed(names))
	}
}

// checkIdentity finds the workload identity and the way to Nomad's API.
func checkIdentity(p *problems, out *plan, s *hostEnvironment, v isolation.View) {
	// token returns the task's path of an identity's file. One that is only in
	// the environment goes into a file too: the agent's environment is also
	// its slots', and a file can be renewed.
	token := func(file, key string) string {
		path := inSecrets(s, v, file)
		at, _ := v.Locate(path)
		switch err := s.readable(at); {
		case err == nil:
			return path
		case s.env[key] != "":
			out.tokens[filepath.Join(s.secretsDir, "kolo_"+file)] = s.env[key]
			return inSecrets(s, v, "kolo_"+file)
		case !errors.Is(err, fs.ErrNotExist):
			p.addf("identity: %s cannot be read by the task's user %q (%v)", file, s.user, err)
		}
		return ""
	}
	before := len(*p)
	out.agent.TokenFile = token("nomad_token", "NOMAD_TOKEN")
	out.agent.PeerTokenFile = token("nomad_kolo.jwt", "NOMAD_TOKEN_kolo")
	if out.agent.TokenFile == "" && len(*p) == before {
		p.addf("identity: the task has no workload identity; add identity { file = true } to the task: with it the agent reads Nomad's services and proves itself to the others")
	}

	socket := filepath.Join(s.secretsDir, "api.sock")
	switch {
	case s.exists(socket):
		out.agent.NomadAddr = "unix://" + inSecrets(s, v, "api.sock")
	case s.env["NOMAD_UNIX_ADDR"] != "":
		out.agent.NomadAddr = s.env["NOMAD_UNIX_ADDR"]
	default:
		p.addf("identity: Nomad's Task API socket %s is missing; the client must run Nomad 1.5 or newer on Linux", socket)
	}
}

// inSecrets is a file of the secrets directory as the task sees it. Isolated
// tasks get the short path: a socket's must stay below 108 bytes.
func inSecrets(s *hostEnvironment, v isolation.View, name string) string {
	if v.Isolated {
		return filepath.Join("/secrets", name)
	}
	return filepath.Join(s.secretsDir, name)
}

// fillFacts tells the agent who it is in Nomad's words.
func fillFacts(p *problems, a *agentconfig.Config, env map[string]string) {
	for _, fact := range []struct {
		key string
		to  *string
	}{
		{"NOMAD_NAMESPACE", &a.Namespace},
		{"NOMAD_JOB_ID", &a.JobID},
		{"NOMAD_GROUP_NAME", &a.Group},
		{"NOMAD_TASK_NAME", &a.Task},
		{"NOMAD_ALLOC_ID", &a.AllocID},
	} {
		if *fact.to = env[fact.key]; *fact.to == "" {
			p.addf("%s: is missing from the task's environment; Nomad 1.8 or newer sets it", fact.key)
		}
	}
	index, err := strconv.Atoi(env["NOMAD_ALLOC_INDEX"])
	if err != nil || index < 0 {
		p.addf("NOMAD_ALLOC_INDEX = %q: Nomad should have set it to a number", env["NOMAD_ALLOC_INDEX"])
	}
	a.Index = index
}

// environment is what the agent runs with: the task's, the GPUs, and the name
// of its configuration file.
func (pl *plan) environment(env map[string]string, configFile string) []string {
	env = maps.Clone(env)
	gpu.Show(env, pl.devices, pl.gpus)
	env[agentconfig.Variable] = configFile
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, fmt.Sprintf("%s=%s", k, v))
	}
	slices.Sort(list)
	return list
}
