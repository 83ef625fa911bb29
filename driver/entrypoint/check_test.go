// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// goodFacts returns the facts of a task that is set up like
// jobspecs/container.nomad.hcl.
func goodFacts() *facts {
	return &facts{
		framework: "horovod", label: "kolo", address: "10.0.0.5", addresses: []string{"127.0.0.1", "10.0.0.5"},
		name: "10.0.0.5", resolved: []string{"10.0.0.5"}, slots: 1, killGiven: true, shm: 1 << 30,
	}
}

// errDenied is what mayCut returns under a strict seccomp profile.
var errDenied = fmt.Errorf("pidfd_getfd: %w, ptrace: %w", unix.EPERM, unix.EPERM)

// debian is what a machine's name resolves to by /etc/hosts of its installer.
var debian = []string{"127.0.1.1"}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		change   func(*facts)
		problem  string
		warnings []string
	}{
		"all is well": {change: func(*facts) {}},
		"a bridge": {
			change: func(f *facts) { f.addresses = []string{"127.0.0.1", "172.17.0.2"} },
			problem: `network_mode: the task is not in the host's network, as none of its interfaces has 10.0.0.5, the address of port "kolo", and processes of a ring listen at ports of their own choice; ` +
				`set network_mode = "host" in the task's config, and no mode, or mode = "host", in the group's network block`,
		},
		"addresses that can't be listed": {change: func(f *facts) { f.addresses = nil }},
		"a name of loopback": {
			change: func(f *facts) { f.name, f.resolved = "node7", []string{"127.0.1.1", "::1"} },
			problem: `hostname: the task's own name, "node7", does not resolve to 10.0.0.5, and Horovod's processes listen where it does: no ring forms across hosts; ` +
				`set hostname = "${NOMAD_IP_kolo}" in the task's config, or add "10.0.0.5 node7" to /etc/hosts`,
		},
		"it, where slots get another name": {change: func(f *facts) { f.resolved, f.renames = debian, true }},
		"it, with PyTorch":                 {change: func(f *facts) { f.resolved, f.framework = debian, "torch" }},
		"it, on one host for ever":         {change: func(f *facts) { f.resolved, f.slots, f.maxNP = debian, 4, 4 }},
		"it, in a cluster of one machine":  {change: func(f *facts) { f.resolved, f.address = debian, "127.0.0.1" }},
		"a name that Go does not resolve":  {change: func(f *facts) { f.resolved = nil }},
		"a name of two networks":           {change: func(f *facts) { f.resolved = []string{"192.168.0.5", "10.0.0.5"} }},
		"little shared memory": {
			change:   func(f *facts) { f.shm = 64 << 20 },
			warnings: []string{`/dev/shm: has 64 MB, too few for most data loaders with workers and for NCCL; set shm_size in the task's config (docker: bytes, podman: "1g")`},
		},
		"unknown shared memory": {change: func(f *facts) { f.shm = -1 }},
		"a profile that denies it": {
			change: func(f *facts) { f.cuts = errDenied },
			warnings: []string{"connections: kolo-worker may not cut those of its slots (pidfd_getfd: operation not permitted, ptrace: operation not permitted), so that Horovod's processes notice the death of a peer only after gloo_timeout: it is 5s here, " +
				"and a process that is paused for as long counts as dead; " +
				`with cap_add = ["sys_ptrace"] in the task's config, which allow_caps of the client's plugin must list, it takes about a second`},
		},
		"that profile, with a gloo_timeout": {
			change: func(f *facts) { f.cuts, f.glooGiven = errDenied, true },
			warnings: []string{"connections: kolo-worker may not cut those of its slots (pidfd_getfd: operation not permitted, ptrace: operation not permitted), so that Horovod's processes notice the death of a peer only after gloo_timeout: you have set it, " +
				"and a process that is paused for as long counts as dead; " +
				`with cap_add = ["sys_ptrace"] in the task's config, which allow_caps of the client's plugin must list, it takes about a second`},
		},
		"that profile, with PyTorch": {change: func(f *facts) { f.cuts, f.framework = errDenied, "torch" }},
		"Yama, with another user than root": {
			change: func(f *facts) { f.cuts = yamaError("2") },
			warnings: []string{"connections: kolo-worker may not cut those of its slots (kernel.yama.ptrace_scope = 2), so that Horovod's processes notice the death of a peer only after gloo_timeout: it is 5s here, " +
				"and a process that is paused for as long counts as dead; with kernel.yama.ptrace_scope = 1 on the client, it takes about a second"},
		},
		"no kill_timeout": {
			change: func(f *facts) { f.killGiven = false },
			warnings: []string{"kill_timeout: is not given, so that this host leaves within 5s, Nomad's default, whether or not the ring has reached a commit; " +
				"set kill_timeout of the task, and the same as --kill_timeout"},
		},
		"GPUs that the image claims": {
			change: func(f *facts) { f.visible, f.nodes = "all", 8 },
			problem: "resources.device: the image's NVIDIA_VISIBLE_DEVICES=all shows the task GPUs of this client (8), and Nomad has reserved none for it: other tasks may use them; " +
				`add a device block to the task's resources, or env { NVIDIA_VISIBLE_DEVICES = "void" } to train without; to use them nevertheless, set --slots`,
		},
		"GPUs that the user wants": {
			change:   func(f *facts) { f.visible, f.nodes, f.slotsGiven = "all", 8, true },
			warnings: []string{"resources.device: the image's NVIDIA_VISIBLE_DEVICES=all shows the task GPUs of this client (8), and Nomad has reserved none for it: other tasks may use them; they are used because slots is set"},
		},
		"GPUs that are not there":    {change: func(f *facts) { f.visible = "all" }},
		"GPUs that Nomad reserved":   {change: func(f *facts) { f.visible, f.nodes, f.gpus = "GPU-a", 1, []string{"GPU-a"} }},
		"GPUs that are given away":   {change: func(f *facts) { f.visible, f.nodes = "void", 8 }},
		"an address no one knows of": {change: func(f *facts) { f.address, f.label = "", "" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := goodFacts()
			c.change(f)
			problems, warnings := f.check()
			must.Eq(t, c.warnings, warnings.Strings())
			if c.problem == "" {
				must.NoError(t, problems.Err())
				return
			}
			must.EqError(t, problems.Err(), c.problem)
		})
	}
}
