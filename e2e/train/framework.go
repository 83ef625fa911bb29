// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import (
	"fmt"
	"os"
	"path/filepath"
)

// A Framework is a training framework for jobs. All scripts take the same flags and record
// the same events. All paths are relative to the project's root.
type Framework struct {
	// Name is the name of the task driver.
	Name string
	// Python is an interpreter that can import the framework.
	Python string
	// Script is the training script, Driver the task driver's program.
	Script string
	Driver string
	path   string // PYTHONPATH
	module string // runs the script, instead of Python itself
}

// The frameworks that Kolo's driver trains with.
var (
	Horovod = Framework{Name: "horovod", Python: ".venv/bin/python", Script: "e2e/train/train.py", Driver: "bin/nomad-driver-horovod"}
	Torch   = Framework{Name: "torch", Python: "bin/torch/python3", Script: "e2e/train/torch_train.py", Driver: "bin/nomad-driver-torch", path: "python"}
)

// Torchrun runs the same script as Torch, but in the way of torchrun. It starts the script
// by kolo.launch, so that PyTorch's store client works without libuv, which Debian's
// PyTorch lacks.
var Torchrun = Framework{Name: "torchrun", Python: Torch.Python, Script: Torch.Script, Driver: Torch.Driver, path: Torch.path, module: "kolo.launch"}

// Torchft runs PyTorch under the launcher torchft, for comparison.
var Torchft = Framework{Name: "torchft", Python: Torch.Python, Script: "e2e/train/torchft_train.py", Driver: Torch.Driver, path: "bin/torchft"}

// Named returns a framework by its name.
func Named(name string) (Framework, error) {
	for _, f := range []Framework{Horovod, Torch} {
		if f.Name == name {
			return f, nil
		}
	}
	return Framework{}, fmt.Errorf("%q is neither horovod nor torch", name)
}

// Check returns an error unless everything that a job needs is below root.
func (f Framework) Check(root string) error {
	for _, needed := range []string{f.Driver, f.Python, f.Script} {
		if _, err := os.Stat(filepath.Join(root, needed)); err != nil {
			return err
		}
	}
	return nil
}

// Run returns the command of Kolo's own launcher.
func (f Framework) Run(root string, flags ...string) []string {
	return append([]string{filepath.Join(root, f.Driver), "run"}, flags...)
}

// Command returns the command of the script, to which arguments can be appended.
func (f Framework) Command(root string) []string {
	if f.module != "" {
		return []string{filepath.Join(root, f.Python), "-m", f.module, filepath.Join(root, f.Script)}
	}
	return []string{filepath.Join(root, f.Python), filepath.Join(root, f.Script)}
}

// Plugin returns the task driver's program, and its configuration on a client that uses the
// framework's Python.
func (f Framework) Plugin(root string) (driver, config string) {
	return filepath.Join(root, f.Driver), fmt.Sprintf("allow_isolation_none = true\npython = %q\n", filepath.Join(root, f.Python))
}

// Env returns the variables that the script needs.
func (f Framework) Env(root string) map[string]string {
	if f.path == "" {
		return map[string]string{}
	}
	return map[string]string{"PYTHONPATH": filepath.Join(root, f.path)}
}

// Environ returns the environment of a job that this process starts.
func (f Framework) Environ(root string) []string {
	env := append(os.Environ(), "PATH="+filepath.Dir(filepath.Join(root, f.Python))+":"+os.Getenv("PATH"))
	for name, value := range f.Env(root) {
		env = append(env, name+"="+value)
	}
	return env
}
