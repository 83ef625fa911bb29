// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/device/hostdev"
	"github.com/kolo-nomad/kolo/device/inventory"
)

// checkRuntimes reports which task drivers can give tasks their GPUs on this machine,
// judging by its files. It starts no container.
func (fs *findings) checkRuntimes(root string, gpus []*inventory.GPU) {
	switch {
	case !installed(root, "dockerd"):
		fs.note("nothing, unless jobs use it here", "docker is not installed")
	default:
		fs.checkDocker(root)
	}
	switch {
	case !installed(root, "podman"):
		fs.note("nothing, unless jobs use it here", "podman is not installed")
	default:
		fs.checkPodman(root, gpus)
	}
}

// checkDocker looks for the runtime that Nomad's docker driver selects for a task with
// reserved GPUs.
func (fs *findings) checkDocker(root string) {
	const file = "/etc/docker/daemon.json"
	advice := "install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker"
	text, err := os.ReadFile(filepath.Join(root, file))
	var daemon struct {
		Runtimes map[string]struct{ Path string }
	}
	if err == nil {
		err = json.Unmarshal(text, &daemon)
	}
	runtime, found := daemon.Runtimes["nvidia"]
	switch {
	case err != nil && !os.IsNotExist(err):
		fs.note("repair it", "docker: %s: %v", file, err)
	case !found:
		fs.note(advice, "docker does not give tasks their GPUs: %s has no runtime nvidia", file)
	case !runs(root, runtime.Path):
		fs.note(advice, "docker does not give tasks their GPUs: its runtime nvidia is %q, which is not there", runtime.Path)
	default:
		fs.note(`nothing: Nomad's driver selects the runtime by itself; set gpu_runtime in its plugin block where that is not named nvidia`,
			"docker gives tasks their GPUs, by the runtime nvidia")
	}
}

// checkPodman looks for the CDI names of all GPUs.
func (fs *findings) checkPodman(root string, gpus []*inventory.GPU) {
	const generate = "nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml, and again after each change of the driver or of MIG instances"
	spec := hostdev.ReadCDI(root)
	missing := slices.DeleteFunc(ids(gpus), spec.Names)
	switch {
	case len(spec) == 0:
		fs.note(generate, "podman does not give tasks their GPUs: there is no CDI specification of them in /etc/cdi or /var/run/cdi")
	case len(missing) > 0:
		fs.add(Finding{What: "podman does not give tasks these GPUs: the CDI specification does not have their UUIDs as names", Do: generate, Where: missing})
	default:
		fs.note(`in the task's config: devices = ["${KOLO_CDI_0}"], and one more for each more GPU ("${KOLO_CDI_1}", …)`,
			"podman gives tasks their GPUs, by CDI")
	}
}

// ids returns the names by which tasks reserve GPUs, including those of MIG instances.
func ids(gpus []*inventory.GPU) []string {
	var list []string
	for _, g := range gpus {
		if !g.Facts.MIG {
			list = append(list, g.Facts.UUID)
		}
		for _, instance := range g.Facts.Instances {
			list = append(list, instance.UUID)
		}
	}
	return list
}

// programDirs are the directories in which packages install programs.
var programDirs = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"}

func installed(root, program string) bool {
	return slices.ContainsFunc(programDirs, func(dir string) bool { return isFile(root, filepath.Join(dir, program)) })
}

// runs reports whether a program exists, given by its path or only by its name.
func runs(root, program string) bool {
	if strings.HasPrefix(program, "/") {
		return isFile(root, program)
	}
	return program != "" && installed(root, program)
}

func isFile(root, path string) bool {
	info, err := os.Stat(filepath.Join(root, path))
	return err == nil && !info.IsDir()
}
