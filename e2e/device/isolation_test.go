// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// Two isolated tasks on one machine have the device nodes of their own GPU and of
// no other, whatever is in their jobs' env. They have them again after a restart of
// the Nomad client and of the task.
func TestIsolatedTasksHaveTheirGPUsAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("tasks are isolated only where the Nomad client runs as root")
	}
	if _, _, ok := horovod(t); !ok {
		t.Skip("bin/nomad-driver-horovod or .venv is missing; make build horovod")
	}
	r := newRig(t, quick, "two-boards-a100")
	// The plugin looks for nodes among the machine's other files, and the driver passes on
	// those of the host.
	dev := filepath.Join(r.Dir, r.Nodes[0].Name, "dev")
	must.NoError(t, os.Mkdir(dev, 0o755))
	for _, name := range []string{"nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4", "nvidia5", "nvidia6", "nvidia7", "nvidiactl"} {
		makeNode(t, filepath.Join(dev, name))
		makeNode(t, filepath.Join("/dev", name))
	}
	r.waitHealthy(0, 8)
	own := map[string]string{}
	for _, name := range []string{"one", "two"} {
		a := r.run(name, 1, horovodJob(name, "exec", `device "nvidia/gpu" { count = 1 }`))[0]
		must.Eq(t, gpus(a)[0], r.environment(a)["CUDA_VISIBLE_DEVICES"])
		own[name] = r.nodesOf(a, 1)[0]
		t.Logf("%s: %s", name, own[name])
	}
	must.NotEq(t, own["one"], own["two"])

	must.NoError(t, r.Nodes[0].Kill())
	must.NoError(t, r.Nodes[0].Start(r.ctx))
	a := r.placed("one", 1)[0]
	must.NoError(t, cluster.Until(r.ctx, "the server to reach the client again", func(context.Context) error {
		return r.API.Allocations().Restart(a, "t", nil)
	}))
	must.Eq(t, []string{own["one"], own["one"]}, r.nodesOf(a, 2))
	r.stop("one")
	r.stop("two")
}

var gpuNode = regexp.MustCompile(`^/dev/nvidia[0-9]+$`)

// nodesOf waits until a task has listed its device nodes so often, and returns
// what it listed. Each list has one GPU's.
func (r *rig) nodesOf(a *api.Allocation, times int) []string {
	r.t.Helper()
	var all []string
	must.NoError(r.t, cluster.Until(r.ctx, fmt.Sprintf("%d lists of device nodes", times), func(context.Context) error {
		text, err := r.Logs(a.ID, "t", "stdout")
		if err != nil {
			return err
		}
		all = nil
		for line := range strings.Lines(text) {
			if _, list, ok := strings.Cut(strings.TrimSpace(line), "NODES="); ok {
				all = append(all, list)
			}
		}
		if len(all) < times {
			return fmt.Errorf("%d of them", len(all))
		}
		return nil
	}))
	for i, list := range all {
		nodes := strings.Fields(list)
		must.SliceContains(r.t, nodes, "/dev/nvidiactl")
		nodes = slices.DeleteFunc(nodes, func(s string) bool { return !gpuNode.MatchString(s) })
		must.Len(r.t, 1, nodes, must.Sprint(list))
		all[i] = nodes[0]
	}
	return all
}

// makeNode makes a device node, unless the machine has it. It opens nothing: the
// number is one that no driver has.
func makeNode(t *testing.T, path string) {
	t.Helper()
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(240, 200)))
	if errors.Is(err, fs.ErrExist) {
		return
	}
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.Remove(path)) })
}

// horovodJob returns a horovod task that shows what its one slot is given, and claims
// other GPUs in its env.
func horovodJob(name, isolation, devices string) string {
	return fmt.Sprintf(`
job %[1]q {
  type = "batch"
  group "g" {
    network {
      port "kolo" {}
    }
    shutdown_delay = "1ms"
    service {
      name     = %[1]q
      port     = "kolo"
      provider = "nomad"
    }
    task "t" {
      driver       = "horovod"
      kill_timeout = "5s"
      config {
        command   = "/bin/sh"
        args      = ["-c", "NODES=$(echo /dev/nvidia*); export NODES; env; exec sleep 600"]
        isolation = %[2]q
        service   = %[1]q
        slots     = 1
        min_np    = 1
        max_np    = 1
      }
      env {
        KOLO_GPUS_ffffffff   = "GPU-00000000-0000-0000-0000-000000000000"
        CUDA_VISIBLE_DEVICES = "0,1,2,3"
      }
      identity {
        env  = true
        file = true
      }
      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "1h"
      }
      resources {
        cpu    = 100
        memory = 128
        %[3]s
      }
    }
  }
}`, name, isolation, devices)
}
