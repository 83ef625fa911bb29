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

// facts are what check knows of a task and of the machine that it sees.
type facts struct {
	framework string
	// label is that of the service's port, address the address that Nomad gave for it.
	label, address string
	// addresses are those of the network interfaces that the task sees, none where they
	// can't be listed.
	addresses []string
	// name is what the machine is called, resolved what that resolves to, as far as can
	// be found out. renames states that the agent may give its slots another.
	name     string
	resolved []string
	renames  bool
	// slots are of this host, maxNP of the job, 0 where it is not limited.
	slots, maxNP int
	// slotsGiven, killGiven and glooGiven state that the user has set them.
	slotsGiven, killGiven, glooGiven bool
	// shm is the size of /dev/shm in bytes, negative where it is not known.
	shm int64
	// cuts is why the agent may not cut connections of its slots, nil where it may.
	cuts error
	// root states that the task's user is root.
	root bool
	// visible is the variable by which an image or Nomad names GPUs, gpus are those
	// that Nomad reserved, nodes those whose device nodes the task sees.
	visible string
	gpus    []string
	nodes   int
}

// leastShm is less than the processes of most trainings share in /dev/shm, and
// twice what container runtimes give.
const leastShm = 128 << 20

// withoutCutting is the default of gloo_timeout where processes notice a peer's death
// by it alone.
const withoutCutting = "5s"

// check states what keeps the job from training, with what to do about it, and what
// makes it train worse.
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

// yamaError is the value of kernel.yama.ptrace_scope that denies cutting connections.
type yamaError string

func (s yamaError) Error() string { return "kernel.yama.ptrace_scope = " + string(s) }

// cuttingRemedy is what lets the agent cut connections. A capability is of no use to
// a user other than root, and at scope 3 to no one.
func (f *facts) cuttingRemedy() string {
	var scope yamaError
	if errors.As(f.cuts, &scope) && (scope == "3" || !f.root) {
		return "kernel.yama.ptrace_scope = 1 on the client"
	}
	return `cap_add = ["sys_ptrace"] in the task's config, which allow_caps of the client's plugin must list`
}

// checkNetwork finds a network of the task's own: in one only the group's own ports
// are mapped, and the processes of a ring listen at ports that they pick.
func (f *facts) checkNetwork(p *problem.List) {
	if f.address != "" && len(f.addresses) > 0 && !slices.Contains(f.addresses, f.address) {
		p.Add("config.network_mode", nil, fmt.Sprintf("the task is not in the host's network, as none of its interfaces has %s, the address of port %q, and processes of a ring listen at ports of their own choice", f.address, f.label),
			`set network_mode = "host" in the task's config, and no mode, or mode = "host", in the group's network block`)
	}
}

// checkName finds a name by which Horovod's processes would listen at a loopback
// address, see package hostnet. Of another name that is not the service's address, the
// agent warns: Go's resolver does not find all that the C library's does.
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

// checkGPUs finds GPUs that nothing but the image's variable claims. They may be in
// use by others.
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
