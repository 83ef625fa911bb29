// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	torchtask "github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// host is a fake client: the files on it, and what its owner allows.
type host struct {
	files      map[string]error // nil: readable and executable
	links      map[string]string
	closed     string // a directory that the task's user cannot enter
	interfaces []string
	env        map[string]string
	devices    map[string]string
	mounts     []*drivers.MountConfig
	noExec     error
	network    *groupNetwork
	config     Config
}

const (
	testAllocDir = "/data/alloc/a1"
	testTaskDir  = testAllocDir + "/train"
)

// newHost returns a client on which goodTask can run.
func newHost() *host {
	return &host{
		files: map[string]error{
			"/usr/bin/python3":                    nil,
			testTaskDir + "/local/train.py":       nil,
			testTaskDir + "/secrets/nomad_token":  nil,
			testTaskDir + "/secrets/api.sock":     nil,
			"/srv/venv/bin/python":                nil,
			testTaskDir + "/local/bin/train.sh":   nil,
			testTaskDir + "/local/unreadable.py":  fs.ErrPermission,
			testTaskDir + "/local/not-executable": fs.ErrPermission,
			testTaskDir + "/local/examples/mnist": nil,
			testTaskDir + "/local/closed":         fs.ErrPermission,
		},
		interfaces: []string{"lo", "eth0", "ib0"},
		devices:    map[string]string{},
		env: map[string]string{
			"PATH":              "/usr/local/bin:/usr/bin",
			"NOMAD_NAMESPACE":   "default",
			"NOMAD_JOB_ID":      "resnet",
			"NOMAD_GROUP_NAME":  "workers",
			"NOMAD_TASK_NAME":   "train",
			"NOMAD_ALLOC_ID":    "a1",
			"NOMAD_ALLOC_INDEX": "3",
			"NOMAD_PORT_kolo":   "25000",
		},
		config: Config{block: blockOf("horovod"), AllowIsolationNone: true, BindPaths: []string{"/usr", "/etc"}},
	}
}

func (h *host) environment() *hostEnvironment {
	access := func(file account.Path) error {
		err, there := h.files[filepath.Join(file.Base, file.Rel)]
		if !there {
			return fs.ErrNotExist
		}
		return err
	}
	return &hostEnvironment{
		plugin: &h.config, env: h.env, devices: h.devices, mounts: h.mounts, execIsolation: h.noExec, network: h.network,
		allocDir: testAllocDir, taskDir: testTaskDir,
		secretsDir: testTaskDir + "/secrets",
		exists:     func(path string) bool { _, there := h.files[path]; return there },
		user:       "trainer", readable: access, executable: access, enterable: access,
		link: func(file account.Path) (string, error) {
			path := filepath.Join(file.Base, file.Rel)
			if h.closed != "" && strings.HasPrefix(path, h.closed+"/") {
				return "", fs.ErrPermission
			}
			if target := h.links[path]; target != "" || path == h.closed {
				return target, nil
			}
			for file := range h.files {
				if strings.HasPrefix(file+"/", path+"/") {
					return "", nil
				}
			}
			return "", fs.ErrNotExist
		},
		interfaces: func() ([]string, error) { return h.interfaces, nil },
	}
}

// given is the content of a jobspec's config.
type given = map[string]any

const nvidiaVisible, cudaVisible = "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"

func goodTask() given {
	return given{"command": "python3", "args": []any{"local/train.py"}, "service": "resnet-ring"}
}

func TestValidateRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(given, *host)
		// says are the problems' sentences, each in full.
		says []string
	}{
		"min_np above max_np": {
			func(c given, _ *host) { c["min_np"], c["max_np"] = 4, 2 },
			[]string{"min_np = 4: is more than max_np = 2; lower min_np or raise max_np"},
		},
		"np below min_np": {
			func(c given, _ *host) { c["min_np"], c["np"] = 4, 2 },
			[]string{"np = 2: is less than min_np = 4; raise np, or leave it out to start with min_np"},
		},
		"np above max_np": {
			func(c given, _ *host) { c["np"], c["max_np"] = 9, 8 },
			[]string{"np = 9: is more than max_np = 8; lower np or raise max_np"},
		},
		"slots zero": {
			func(c given, _ *host) { c["slots"] = 0 },
			[]string{"slots = 0: must be at least 1"},
		},
		"slots no whole number": {
			func(c given, _ *host) { c["slots"] = 1.5 },
			[]string{"slots = 1.5: must be a whole number"},
		},
		"slots above max_np": {
			func(c given, _ *host) { c["slots"], c["max_np"] = 4, 2 },
			[]string{"slots = 4: is more than max_np = 2, so some could never train; lower slots (or the device count) or raise max_np"},
		},
		"more slots than GPUs": {
			func(c given, h *host) { c["slots"] = 2; h.devices[nvidiaVisible] = "GPU-a" },
			[]string{"slots = 2: only 1 GPUs are reserved, and two processes on one GPU cannot form a ring with NCCL; reserve more or leave slots out"},
		},
		"several MIG instances": {
			func(_ given, h *host) { h.devices[nvidiaVisible] = "MIG-a,MIG-b" },
			[]string{"resources.device: 2 GPUs are reserved, 2 of them MIG instances, and a process that is given one finds no other; " +
				"reserve a single instance per task (count = 1) and have more of the group"},
		},
		"devices that are no GPUs": {
			func(_ given, h *host) { h.devices[nvidiaVisible] = "all" },
			[]string{`resources.device: the client's device plugin reserved "all", which is not the UUID of a GPU; check the plugin`},
		},
		"negative reset_limit": {
			func(c given, _ *host) { c["reset_limit"] = -1 },
			[]string{"reset_limit = -1: must be at least 0"},
		},
		"no duration": {
			func(c given, _ *host) { c["elastic_timeout"] = "soon" },
			[]string{`elastic_timeout = "soon": not a duration; write it like "90s" or "10m"`},
		},
		"duration too short": {
			func(c given, _ *host) { c["leave_timeout"] = "0s" },
			[]string{`leave_timeout = "0s": must be at least 1s`},
		},
		"half seconds for gloo": {
			func(c given, _ *host) { c["gloo_timeout"] = "1500ms" },
			[]string{`gloo_timeout = "1500ms": must be whole seconds, as Horovod counts`},
		},
		"no time for gloo": {
			func(c given, _ *host) { c["gloo_timeout"], c["stall_timeout"] = "0s", "-1s" },
			[]string{`stall_timeout = "-1s": must be at least 0s`, `gloo_timeout = "0s": must be at least 1s`},
		},
		"an earlier name": {
			func(c given, _ *host) { c["settle"] = "2s" },
			[]string{`settle = "2s": this setting is named debounce; rename it`},
		},
		"unknown on_ring_lost": {
			func(c given, _ *host) { c["on_ring_lost"] = "retry" },
			[]string{`on_ring_lost = "retry": must be "fail" or "restart"`},
		},
		"unknown isolation": {
			func(c given, _ *host) { c["isolation"] = "docker" },
			[]string{`isolation = "docker": must be "exec" or "none"`},
		},
		"isolation none not allowed": {
			func(c given, h *host) { c["isolation"] = "none"; h.config.AllowIsolationNone = false },
			[]string{`isolation = "none": not allowed on this client; use "exec", or set allow_isolation_none = true in the config of plugin "nomad-driver-horovod"`},
		},
		"isolation exec not possible": {
			func(_ given, h *host) { h.noExec = errors.New("needs root") },
			[]string{`isolation = "exec": not possible on this client (needs root); use "none" where the client allows it`},
		},
		"everybody's data bound": {
			func(_ given, h *host) { h.config.BindPaths = append(h.config.BindPaths, "/data") },
			[]string{`plugin "nomad-driver-horovod": config.bind_paths: "/data" holds Nomad's data directory, so that tasks would see one another; bind what they need of it instead`},
		},
		"volume without isolation": {
			func(c given, h *host) {
				c["isolation"] = "none"
				h.mounts = []*drivers.MountConfig{{TaskPath: "/data", HostPath: "/srv/data"}}
			},
			[]string{`volume_mount.destination = "/data": needs isolation = "exec"; with "none" the task finds it at "/srv/data"`},
		},
		"no command": {
			func(c given, _ *host) { c["command"] = "" },
			[]string{`command: is not set; set it to the program that trains, for example "python3" with args = ["${NOMAD_TASK_DIR}/train.py"]`},
		},
		"a launcher as command": {
			func(c given, _ *host) {
				c["command"], c["args"] = "horovodrun", []any{"-np", "2", "python3", "local/train.py"}
			},
			[]string{`command = "horovodrun": Kolo takes its place; set command to the program that trains, and np, min_np and max_np instead of its flags`},
		},
		"torchrun": {
			func(c given, _ *host) { c["command"] = "/usr/bin/torchrun" },
			[]string{`command = "/usr/bin/torchrun": Kolo takes its place; set command to the program that trains, ` +
				`and slots (--nproc-per-node), min_np and max_np (--nnodes) instead of its flags; or, with PyTorch, keep it with --rdzv-backend=kolo`},
		},
		"torchrun as a module": {
			func(c given, _ *host) { c["args"] = []any{"-m", "torch.distributed.run", "train.py"} },
			[]string{"args: -m torch.distributed.run: Kolo takes its place; set command to the program that trains, " +
				`and slots (--nproc-per-node), min_np and max_np (--nnodes) instead of its flags; or, with PyTorch, keep it with --rdzv-backend=kolo`},
		},
		"command not in PATH": {
			func(c given, _ *host) { c["isolation"], c["command"] = "none", "python4" },
			[]string{`command = "python4": not found in /usr/local/bin, /usr/bin`},
		},
		"command on the host but not in the task's view": {
			func(c given, _ *host) { c["command"] = "/srv/venv/bin/python" },
			[]string{`command = "/srv/venv/bin/python": no such file in the task's isolated file system (bind_paths in the config of plugin "nomad-driver-horovod" says what of the host is in it)`},
		},
		"command below a closed directory": {
			func(c given, h *host) {
				c["isolation"], c["command"] = "none", "/root/.pyenv/bin/python"
				h.closed = "/root"
			},
			[]string{`command = "/root/.pyenv/bin/python": the task's user "trainer" cannot run it (enter /root: permission denied); let that user into /root, install it where every user can go, for example below /usr/local, or change the task's user = …`},
		},
		"environment of a Python below a closed directory": {
			func(c given, h *host) {
				c["isolation"], c["command"] = "none", "/srv/venv/bin/python"
				h.closed, h.links = "/root", map[string]string{"/srv/venv/bin/python": "/root/.local/share/uv/python/bin/python3"}
			},
			[]string{`command = "/srv/venv/bin/python": the task's user "trainer" cannot run it (enter /root: permission denied); let that user into /root, install it where every user can go, for example below /usr/local, or change the task's user = …`},
		},
		"it in the task's view": {
			func(c given, h *host) {
				c["command"], h.config.BindPaths = "/srv/venv/bin/python", append(h.config.BindPaths, "/srv/venv")
				h.closed, h.links = "/root", map[string]string{"/srv/venv/bin/python": "/root/.local/share/uv/python/bin/python3"}
			},
			[]string{`command = "/srv/venv/bin/python": leads to /root/.local/share/uv/python/bin/python3, no such file in the task's isolated file system (bind_paths in the config of plugin "nomad-driver-horovod" says what of the host is in it)`},
		},
		"a closed directory in PATH": {
			func(c given, h *host) {
				c["isolation"], c["command"], h.closed = "none", "python4", "/root"
				h.env["PATH"] = "/usr/bin:/root/.pyenv/shims:/root/bin"
			},
			[]string{`command = "python4": not found in /usr/bin, /root/.pyenv/shims, /root/bin, not all of which the task's user "trainer" can search (enter /root: permission denied); let that user into /root, install it where every user can go, for example below /usr/local, or change the task's user = …`},
		},
		"script below a closed directory": {
			func(c given, h *host) {
				c["isolation"], c["args"], h.closed = "none", []any{"/root/train.py"}, "/root"
			},
			[]string{`args: script "/root/train.py" cannot be read by the task's user "trainer" (enter /root: permission denied); let that user into /root, install it where every user can go, for example below /usr/local, or change the task's user = …`},
		},
		"command not executable": {
			func(c given, _ *host) { c["command"] = "local/not-executable" },
			[]string{`command = "local/not-executable": the task's user "trainer" cannot run it (permission denied); change its mode or the task's user = …`},
		},
		"script missing": {
			func(c given, _ *host) { c["isolation"], c["args"] = "none", []any{"-u", "local/tarin.py"} },
			[]string{`args: script "local/tarin.py" does not exist; bring it with an artifact, template or volume_mount block`},
		},
		"script unreadable": {
			func(c given, _ *host) { c["args"] = []any{"-W", "ignore", "/local/unreadable.py"} },
			[]string{`args: script "/local/unreadable.py" cannot be read by the task's user "trainer" (permission denied); change its mode or the task's user = …`},
		},
		"working directory out of the task's": {
			func(c given, _ *host) { c["work_dir"] = "local/../../../a2/train" },
			[]string{`work_dir = "local/../../../a2/train": leads out of the task's directory; use an absolute path for a directory on a volume`},
		},
		"working directory with a zero byte": {
			func(c given, _ *host) { c["work_dir"] = "local\x00" },
			[]string{`work_dir = "local\x00": has a zero byte`},
		},
		"working directory missing": {
			func(c given, _ *host) { c["isolation"], c["work_dir"], c["args"] = "none", "local/exmaples", nil },
			[]string{`work_dir = "local/exmaples": no such directory; bring it with an artifact or volume_mount block`},
		},
		"working directory on the host but not in the task's view": {
			func(c given, h *host) { c["work_dir"], c["args"] = "/srv/venv", nil; h.files["/srv/venv"] = nil },
			[]string{`work_dir = "/srv/venv": no such directory in the task's isolated file system (bind_paths in the config of plugin "nomad-driver-horovod" says what of the host is in it); bring it with an artifact or volume_mount block`},
		},
		"working directory that is a file": {
			func(c given, h *host) {
				c["work_dir"] = "local/train.py"
				h.files[testTaskDir+"/local/train.py"] = syscall.ENOTDIR
			},
			[]string{`work_dir = "local/train.py": is not a directory; name the one that holds it`},
		},
		"working directory closed": {
			func(c given, _ *host) { c["work_dir"] = "local/closed" },
			[]string{`work_dir = "local/closed": the task's user "trainer" cannot enter it (permission denied); change its mode or the task's user = …`},
		},
		"script that is not below the working directory": {
			func(c given, _ *host) { c["isolation"], c["work_dir"] = "none", "local/examples/mnist" },
			[]string{`args: script "local/train.py" does not exist below work_dir; bring it with an artifact, template or volume_mount block`},
		},
		"no service": {
			func(c given, _ *host) { c["service"] = "" },
			[]string{`service: is not set; add a service block with provider = "nomad" and a port to the group, and set service to its name: agents find each other by it`},
		},
		"no port": {
			func(_ given, h *host) { delete(h.env, "NOMAD_PORT_kolo") },
			[]string{`port: the group reserves none; add network { port "kolo" {} } to the group and port = "kolo" to its service block`},
		},
		"several ports and no choice": {
			func(_ given, h *host) {
				delete(h.env, "NOMAD_PORT_kolo")
				h.env["NOMAD_PORT_http"], h.env["NOMAD_PORT_tb"] = "1", "2"
			},
			[]string{`port: the group has several and none is labelled "kolo"; set port to the label of the service's port; there are: http, tb`},
		},
		"wrong port label": {
			func(c given, _ *host) { c["port"] = "rendezvous" },
			[]string{`port = "rendezvous": the group has no port with this label; there are: kolo`},
		},
		"Nomad's bridge": {
			func(_ given, h *host) { h.network = &groupNetwork{Network: ownNetwork, bridge: true} },
			[]string{`network.mode = "bridge": the addresses behind Nomad's bridge are the client's alone, and other clients reach only the ports that are mapped, while processes of a ring listen at ports of their own choice; use "host", or a CNI network in which clients reach each other's allocations ("cni/<name>")`},
		},
		"no network": {
			func(_ given, h *host) { h.network = &groupNetwork{Network: hostnet.Network{Loopback: true}} },
			[]string{`network.mode: the group's network has no address at which others reach it, as with "none"; use "host", or a CNI network in which clients reach each other's allocations ("cni/<name>")`},
		},
		"a network without loopback": {
			func(_ given, h *host) { h.network = &groupNetwork{Network: hostnet.Network{Address: "10.1.0.2"}} },
			[]string{`network.mode: the group's network has no loopback interface that is up, by which the processes of a task talk to their agent; add { "type": "loopback" } to the plugins of the CNI configuration`},
		},
		"a network that is gone": {
			func(_ given, h *host) { h.network = &groupNetwork{err: fs.ErrNotExist} },
			[]string{`network.mode: the group's network can't be looked at: file does not exist`},
		},
		"wrong interface": {
			func(c given, _ *host) { c["interface"] = "ens3" },
			[]string{`interface = "ens3": no such network interface; there are: lo, eth0, ib0`},
		},
		"wrong interface of the plugin": {
			func(_ given, h *host) { h.config.Interface = "ens3" },
			[]string{`plugin "nomad-driver-horovod": config.interface = "ens3": no such network interface; there are: lo, eth0, ib0`},
		},
		"a place in the network that Nomad did not fill in": {
			func(c given, _ *host) { c["topology"] = "${meta.rack}" },
			[]string{`topology = "${meta.rack}": has a variable that Nomad does not fill in`},
		},
		"a place in the network with too many levels": {
			func(c given, _ *host) { c["topology"] = "a/b/c/d/e/f/g/h/i" },
			[]string{`topology = "a/b/c/d/e/f/g/h/i": must have at most 8 levels, has 9`},
		},
		"no identity": {
			func(_ given, h *host) { delete(h.files, testTaskDir+"/secrets/nomad_token") },
			[]string{"identity: the task has no workload identity; add identity { file = true } to the task: with it the agent reads Nomad's services and proves itself to the others"},
		},
		"identity unreadable": {
			func(_ given, h *host) { h.files[testTaskDir+"/secrets/nomad_token"] = fs.ErrPermission },
			[]string{`identity: nomad_token cannot be read by the task's user "trainer" (permission denied)`},
		},
		"no Task API": {
			func(_ given, h *host) { delete(h.files, testTaskDir+"/secrets/api.sock") },
			[]string{"identity: Nomad's Task API socket /data/alloc/a1/train/secrets/api.sock is missing; the client must run Nomad 1.5 or newer on Linux"},
		},
		"not from Nomad": {
			func(_ given, h *host) { delete(h.env, "NOMAD_JOB_ID"); h.env["NOMAD_ALLOC_INDEX"] = "x" },
			[]string{
				"NOMAD_JOB_ID: is missing from the task's environment; Nomad 1.8 or newer sets it",
				`NOMAD_ALLOC_INDEX = "x": Nomad should have set it to a number`,
			},
		},
		"settings of Horovod": {
			func(c given, _ *host) {
				c["horovod"] = map[string]any{
					"cycle_time_ms": -1, "cache_capacity": 0.5, "log_level": "loud",
					"autotune_gaussian_process_noise": 1.5, "timeline_mark_cycles": true,
				}
			},
			[]string{
				"horovod.cycle_time_ms = -1: must not be negative",
				"horovod.cache_capacity = 0.5: must be a whole number",
				"horovod.autotune_gaussian_process_noise = 1.5: must be between 0 and 1",
				`horovod.log_level = "loud": must be one of trace, debug, info, warning, error, fatal`,
				"horovod.timeline_mark_cycles = true: has no effect without timeline_filename; set that too",
			},
		},
		"several at once": {
			func(c given, _ *host) { c["slots"], c["service"], c["interface"] = 0, "", "x" },
			[]string{
				"slots = 0: must be at least 1",
				`service: is not set; add a service block with provider = "nomad" and a port to the group, and set service to its name: agents find each other by it`,
				`interface = "x": no such network interface; there are: lo, eth0, ib0`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			task, h := goodTask(), newHost()
			c.change(task, h)
			_, err := validate(taskdriver.Horovod{}, task, h.environment())
			var refused problem.List
			must.True(t, errors.As(err, &refused), must.Sprintf("got %v", err))
			must.Eq(t, c.says, refused.Strings())
		})
	}
}

// With a torchrun script, its own settings reach the agent, and wrong ones are reported.
func TestValidateRestart(t *testing.T) {
	task, h := goodTask(), newHost()
	task["mode"], task["spares"] = "restart", 1
	task["checkpoint"] = map[string]any{"signal": "SIGUSR1", "path": "/models", "wait": "5m"}
	got, err := validate(torchtask.PyTorch{}, task, h.environment())
	must.NoError(t, err)
	must.Eq(t, settings.Restart{Mode: "restart", Spares: 1, Checkpoint: settings.Checkpoint{
		Signal: "SIGUSR1", Path: "/models", Wait: settings.Duration(5 * time.Minute)}}, got.agent.Restart)

	task["mode"], task["checkpoint"] = "elastic", map[string]any{"signal": "SIGKILL", "file": "../stop"}
	_, err = validate(torchtask.PyTorch{}, task, h.environment())
	must.EqError(t, err, `mode = "elastic": must be "in-process" or "restart"; `+
		`checkpoint.signal = "SIGKILL": no process can react to it; use one that the script handles, such as SIGUSR1; `+
		`checkpoint.file = "../stop": leads out of the task's directory; use an absolute path for a file on a volume`)
}

// An isolated task has the memory that Nomad's executor gives it; any other task has the
// client's memory.
func TestMemoryOfATask(t *testing.T) {
	task := &drivers.TaskConfig{Resources: &drivers.Resources{NomadResources: &structs.AllocatedTaskResources{
		Memory: structs.AllocatedMemoryResources{MemoryMB: 300}}}}
	e := &environment{plan: &plan{isolation: isolationExec}, task: task}
	must.Eq(t, 300<<20, e.memory())
	task.Resources.NomadResources.Memory.MemoryMaxMB = 500
	must.Eq(t, 500<<20, e.memory())
	e.plan.isolation = isolationNone
	must.Eq(t, 0, e.memory())
}
