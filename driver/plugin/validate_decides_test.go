// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestValidateDecides(t *testing.T) {
	// The result for goodTask on newHost; cases list the differences.
	base := agentconfig.Config{
		Command: "/usr/bin/python3", Args: []string{"local/train.py"}, Dir: testTaskDir, Env: map[string]string{}, RunEnv: map[string]string{"HOROVOD_GLOO_TIMEOUT_SECONDS": "30", "HOROVOD_CACHE_CAPACITY": "0"},
		Framework: "horovod", Training: settings.Training{
			Slots: 1, NP: 1, MinNP: 1, SlotRestarts: 3, OnRingLost: "fail",
			ElasticTimeout: settings.Duration(10 * time.Minute), Debounce: settings.Duration(time.Second),
			FinishTimeout: settings.Duration(10 * time.Minute), LeaveTimeout: settings.Duration(25 * time.Second),
		},
		Service: "resnet-ring", Listen: ":25000",
		Namespace: "default", JobID: "resnet", Group: "workers", Task: "train", AllocID: "a1", Index: 3,
		NomadAddr: "unix:///secrets/api.sock", TokenFile: "/secrets/nomad_token",
	}
	noIsolation := func(c given, a *agentconfig.Config) {
		c["isolation"] = "none"
		a.Dir = testTaskDir
		a.NomadAddr = "unix://" + testTaskDir + "/secrets/api.sock"
		a.TokenFile = testTaskDir + "/secrets/nomad_token"
	}
	cases := map[string]func(given, *host, *agentconfig.Config){
		"defaults":     func(given, *host, *agentconfig.Config) {},
		"no isolation": func(c given, _ *host, a *agentconfig.Config) { noIsolation(c, a) },
		"np follows min_np": func(c given, _ *host, a *agentconfig.Config) {
			c["min_np"] = 3
			a.MinNP, a.NP = 3, 3
		},
		"no debounce": func(c given, _ *host, a *agentconfig.Config) {
			c["debounce"] = "0s"
			a.Debounce = 0
		},
		"a slot for each GPU of all device blocks": func(_ given, h *host, a *agentconfig.Config) {
			h.devices["KOLO_GPUS_9f"] = "GPU-c,GPU-d"
			h.devices["KOLO_GPUS_1a"] = "GPU-a,GPU-b"
			h.devices[nvidiaVisible] = "GPU-c,GPU-d"
			a.Slots = 4
		},
		"fewer slots than GPUs": func(c given, h *host, a *agentconfig.Config) {
			h.devices[nvidiaVisible] = "GPU-c,GPU-d"
			c["slots"] = 1
			a.Slots = 1
		},
		"the only port whatever its label": func(_ given, h *host, a *agentconfig.Config) {
			delete(h.env, "NOMAD_PORT_kolo")
			h.env["NOMAD_PORT_ring"] = "26000"
			a.Listen = ":26000"
		},
		"kolo among several ports": func(_ given, h *host, _ *agentconfig.Config) {
			h.env["NOMAD_PORT_tensorboard"] = "6006"
		},
		"a port label that no variable name can hold": func(c given, h *host, a *agentconfig.Config) {
			c["port"] = "ring-port"
			h.env["NOMAD_PORT_ring_port"] = "26001"
			a.Listen = ":26001"
		},
		"a port label with a dot, which Nomad leaves": func(c given, h *host, a *agentconfig.Config) {
			c["port"] = "ring.port"
			h.env["NOMAD_PORT_ring.port"] = "26002"
			a.Listen = ":26002"
		},
		"interface of the plugin": func(_ given, h *host, a *agentconfig.Config) {
			h.config.Interface = "ib0"
			a.Interface = "ib0"
		},
		"the task's interface before the plugin's": func(c given, h *host, a *agentconfig.Config) {
			h.config.Interface, c["interface"] = "ib0", "eth0"
			a.Interface = "eth0"
		},
		"a place in the network": func(c given, _ *host, a *agentconfig.Config) {
			c["topology"] = "b1/r 2"
			a.Topology = "b1/r 2"
		},
		"a second identity for peers": func(_ given, h *host, a *agentconfig.Config) {
			h.files[testTaskDir+"/secrets/nomad_kolo.jwt"] = nil
			a.PeerTokenFile = "/secrets/nomad_kolo.jwt"
		},
		"identity in the environment only": func(_ given, h *host, a *agentconfig.Config) {
			delete(h.files, testTaskDir+"/secrets/nomad_token")
			h.env["NOMAD_TOKEN"] = "ey"
			a.TokenFile = "/secrets/kolo_nomad_token"
		},
		"command by path in the task directory": func(c given, _ *host, a *agentconfig.Config) {
			c["command"], c["args"] = "local/bin/train.sh", nil
			a.Command, a.Args = "/local/bin/train.sh", nil
		},
		"a working directory, below which command and script are": func(c given, h *host, a *agentconfig.Config) {
			h.files[testTaskDir+"/local/examples/mnist/main.py"] = nil
			h.files[testTaskDir+"/local/examples/venv/bin/python"] = nil
			c["work_dir"], c["command"], c["args"] = "local/examples/mnist/", "../venv/bin/python", []any{"main.py"}
			a.Dir, a.Command, a.Args = "/local/examples/mnist", "/local/examples/venv/bin/python", []string{"main.py"}
		},
		"it by its path on the client": func(c given, h *host, a *agentconfig.Config) {
			h.files[testTaskDir+"/local/examples/mnist/main.py"] = nil
			c["work_dir"], c["args"] = testTaskDir+"/local/examples/mnist", []any{"main.py"}
			a.Dir, a.Args = testTaskDir+"/local/examples/mnist", []string{"main.py"}
		},
		"it behind a link of the task's": func(c given, h *host, a *agentconfig.Config) {
			h.links = map[string]string{testTaskDir + "/local/current": "/local/examples/mnist"}
			h.files[testTaskDir+"/local/examples/mnist/main.py"] = nil
			c["work_dir"], c["args"] = "local/current", []any{"main.py"}
			a.Dir, a.Args = "/local/current", []string{"main.py"}
		},
		"it in a volume": func(c given, h *host, a *agentconfig.Config) {
			h.mounts = []*drivers.MountConfig{{TaskPath: "/code", HostPath: "/srv/code"}}
			h.files["/srv/code/mnist"], h.files["/srv/code/mnist/main.py"] = nil, nil
			c["work_dir"], c["args"] = "/code/mnist", []any{"main.py"}
			a.Dir, a.Args = "/code/mnist", []string{"main.py"}
		},
		"it without isolation": func(c given, h *host, a *agentconfig.Config) {
			noIsolation(c, a)
			h.files[testTaskDir+"/local/examples/mnist/main.py"] = nil
			c["work_dir"], c["args"] = "local/examples/mnist", []any{"main.py"}
			a.Dir, a.Args = testTaskDir+"/local/examples/mnist", []string{"main.py"}
		},
		"script of a module is not looked for": func(c given, _ *host, a *agentconfig.Config) {
			c["args"] = []any{"-m", "train", "missing.py"}
			a.Args = []string{"-m", "train", "missing.py"}
		},
		"script at its host path": func(c given, _ *host, a *agentconfig.Config) {
			c["args"] = []any{testTaskDir + "/local/train.py"}
			a.Args = []string{testTaskDir + "/local/train.py"}
		},
		"script in a volume": func(c given, h *host, a *agentconfig.Config) {
			h.mounts = []*drivers.MountConfig{{TaskPath: "/code", HostPath: "/srv/code"}}
			h.files["/srv/code/train.py"] = nil
			c["args"] = []any{"/code/train.py"}
			a.Args = []string{"/code/train.py"}
		},
		"settings of Horovod": func(c given, _ *host, a *agentconfig.Config) {
			c["horovod"] = map[string]any{
				"fusion_threshold_mb": 0.5, "cycle_time_ms": 2.5, "cache_capacity": 0,
				"autotune": true, "stall_check": false, "log_level": "DEBUG",
				"log_with_timestamp": true, "timeline_filename": "/alloc/t.json", "num_nccl_streams": 2,
			}
			a.Env = map[string]string{
				"HOROVOD_FUSION_THRESHOLD": "524288", "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_CACHE_CAPACITY": "0",
				"HOROVOD_AUTOTUNE": "1", "HOROVOD_STALL_CHECK_DISABLE": "1", "HOROVOD_LOG_LEVEL": "debug",
				"HOROVOD_LOG_HIDE_TIME": "0", "HOROVOD_TIMELINE": "/alloc/t.json", "HOROVOD_NUM_NCCL_STREAMS": "2",
			}
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			task, h, want := goodTask(), newHost(), base
			change(task, h, &want)
			got, err := validate(taskdriver.Horovod{}, task, h.environment())
			must.NoError(t, err)
			must.Eq(t, want, got.agent)
		})
	}
}

func TestValidateMovesTokensToFiles(t *testing.T) {
	task, h := goodTask(), newHost()
	delete(h.files, testTaskDir+"/secrets/nomad_token")
	h.env["NOMAD_TOKEN"], h.env["NOMAD_TOKEN_kolo"] = "ey1", "ey2"
	got, err := validate(taskdriver.Horovod{}, task, h.environment())
	must.NoError(t, err)
	must.Eq(t, map[string]string{
		"kolo_nomad_token":    "ey1",
		"kolo_nomad_kolo.jwt": "ey2",
	}, got.tokens)
}

func TestEnvironmentShowsAllGPUs(t *testing.T) {
	task, h := goodTask(), newHost()
	h.devices["KOLO_GPUS_1"], h.devices["KOLO_GPUS_2"], h.devices[nvidiaVisible] = "GPU-a", "GPU-b", "GPU-b"
	// Nomad copies these over; templates may write others over them again.
	h.env["KOLO_GPUS_1"], h.env["KOLO_GPUS_x"] = "GPU-c", "GPU-c"
	h.env[nvidiaVisible], h.env[cudaVisible] = "GPU-b", "7"
	before := maps.Clone(h.env)
	pl, err := validate(taskdriver.Horovod{}, task, h.environment())
	must.NoError(t, err)
	env := pl.environment(h.env, "/secrets/c.json")
	must.SliceContains(t, env, "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b")
	must.SliceContains(t, env, "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b")
	must.SliceContains(t, env, "KOLO_GPUS_1=GPU-a")
	must.StrNotContains(t, strings.Join(env, " "), "GPU-c")
	must.SliceContains(t, env, "KOLO_AGENT_CONFIG=/secrets/c.json")
	must.Eq(t, before, h.env, must.Sprint("the task's own environment is kept as Nomad gave it"))
}
