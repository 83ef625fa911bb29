// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/workerflags"
)

// facts are what check knows about a task and the machine that it sees.
type facts struct {
	framework string
	// label is the label of the service's port, address the address that Nomad gave for it.
	label, address string
	// addresses are those of the task's network interfaces, empty if they can't be listed.
	addresses []string
	// name is the machine's name, and resolved the addresses that it resolves to, as far as
	// known. renames states that the agent may give its slots another name.
	name     string
	resolved []string
	renames  bool
	// slots is the number of this host's slots, maxNP the job's limit, 0 if there is none.
	slots, maxNP int
	// slotsGiven, killGiven and glooGiven state whether the user has set them.
	slotsGiven, killGiven, glooGiven bool
	// shm is the size of /dev/shm in bytes, negative if unknown.
	shm int64
	// cuts is why the agent may not cut connections of its slots, nil if it may.
	cuts error
	// root states whether the task's user is root.
	root bool
	// visible is the variable by which an image or Nomad names GPUs. gpus are those that
	// Nomad reserved, and nodes is the number of GPU device nodes that the task sees.
	visible string
	gpus    []string
	nodes   int
}

// leastShm is less than most trainings need in /dev/shm, and twice the default of container
// runtimes.
const leastShm = 128 << 20

// withoutCutting is the default of gloo_timeout if only the time-out makes processes notice
// a peer's death.
const withoutCutting = "5s"

// check returns the problems that keep the job from training, with their remedies, and
// warnings about settings that make it train worse.
func (f *facts) check() (problems, warnings problem.List) {
	f.checkNetwork(&problems)
	f.checkName(&problems)
	f.checkGPUs(&problems, &warnings)
	if f.shm >= 0 && f.shm < leastShm {
		warnings.Add("/dev/shm", nil, fmt.Sprintf("has %d MB, too few for most data loaders with workers and for NCCL", f.shm>>20), `set shm_size in the task's config (docker: bytes, podman: "1g")`)
	}
	if f.framework == "horovod" && f.cuts != nil {
		gloo := "it is " + withoutCutting + " here"
		if f.glooGiven {
			gloo = "you have set it"
		}
		warnings.Add("connections", nil, fmt.Sprintf("kolo-worker may not cut those of its slots (%v), so that Horovod's processes notice the death of a peer only after gloo_timeout: %s, and a process that is paused for as long counts as dead",
			f.cuts, gloo), fmt.Sprintf("with %s, it takes about a second", f.cuttingRemedy()))
	}
	if !f.killGiven {
		warnings.Add("kill_timeout", nil, fmt.Sprintf("is not given, so that this host leaves within %s, Nomad's default, whether or not the ring has reached a commit", workerflags.KillTimeout),
			"set kill_timeout of the task, and the same as --kill_timeout")
	}
	return problems, warnings
}

// yamaError is a value of kernel.yama.ptrace_scope that forbids cutting connections.
type yamaError string

func (s yamaError) Error() string { return "kernel.yama.ptrace_scope = " + string(s) }

// cuttingRemedy returns how to let the agent cut connections. A capability does not help a
// user other than root, and at scope 3 it helps no one.
func (f *facts) cuttingRemedy() string {
	var scope yamaError
	if errors.As(f.cuts, &scope) && (scope == "3" || !f.root) {
		return "kernel.yama.ptrace_scope = 1 on the client"
	}
	return `cap_add = ["sys_ptrace"] in the task's config, which allow_caps of the client's plugin must list`
}

// checkNetwork reports a network of the task's own. In such a network only the group's own
// ports are mapped, while the processes of a ring listen at ports of their choice.
func (f *facts) checkNetwork(p *problem.List) {
	if f.address != "" && len(f.addresses) > 0 && !slices.Contains(f.addresses, f.address) {
		p.Add("config.network_mode", nil, fmt.Sprintf("the task is not in the host's network, as none of its interfaces has %s, the address of port %q, and processes of a ring listen at ports of their own choice", f.address, f.label),
			`set network_mode = "host" in the task's config, and no mode, or mode = "host", in the group's network block`)
	}
}

// checkName reports a host name by which Horovod's processes would listen at a loopback
// address, see package hostnet. If the name resolves to another wrong address, the agent
// only warns, because Go's resolver does not find everything that the C library's does.
func (f *facts) checkName(p *problem.List) {
	alone := f.maxNP > 0 && f.maxNP <= f.slots
	others := slices.ContainsFunc(f.resolved, func(a string) bool { return !loopback(a) })
	if f.framework != "horovod" || f.renames || alone || f.address == "" || loopback(f.address) || len(f.resolved) == 0 || others {
		return
	}
	p.Add("config.hostname", nil, fmt.Sprintf("the task's own name, %q, does not resolve to %s, and Horovod's processes listen where it does: no ring forms across hosts", f.name, f.address),
		fmt.Sprintf(`set hostname = "${NOMAD_IP_%s}" in the task's config, or add "%s %s" to /etc/hosts`, f.label, f.address, f.name))
}

func loopback(address string) bool { return net.ParseIP(address).IsLoopback() }

// checkGPUs reports GPUs that only the image's variable claims. Others may be using them.
func (f *facts) checkGPUs(p, w *problem.List) {
	if f.nodes == 0 || len(f.gpus) > 0 || !claims(f.visible) {
		return
	}
	const field = "resources.device"
	text := fmt.Sprintf("the image's NVIDIA_VISIBLE_DEVICES=%s shows the task GPUs of this client (%d), and Nomad has reserved none for it: other tasks may use them", f.visible, f.nodes)
	if f.slotsGiven {
		w.Add(field, nil, text, "they are used because slots is set")
		return
	}
	p.Add(field, nil, text, `add a device block to the task's resources, or env { NVIDIA_VISIBLE_DEVICES = "void" } to train without; to use them nevertheless, set --slots`)
}

// claims reports whether a value of NVIDIA_VISIBLE_DEVICES names GPUs.
func claims(visible string) bool {
	return !slices.Contains([]string{"", "none", "void"}, strings.TrimSpace(visible))
}
