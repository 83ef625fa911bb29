// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A launcher is a launcher to compare, or none.
type launcher struct {
	Name      string
	framework train.Framework
	// command is nil if the script is started by itself.
	command func(*options) []string
	// args are the script's arguments with this launcher.
	args []string
	// needs is a file that the launcher requires, if it is not part of the framework.
	needs string
}

// Horovod's launchers.
var (
	horovodrun = launcher{Name: "horovodrun", framework: train.Horovod, command: func(o *options) []string {
		// If all hosts are this machine, horovodrun must be given the interface: it looks
		// for a common one only among two or more hosts.
		return []string{filepath.Join(o.root, ".venv/bin/horovodrun"), "--gloo", "--network-interface", "lo"}
	}}
	kolo      = koloRun("Kolo", train.Horovod)
	launchers = []launcher{horovodrun, kolo}
	none      = launcher{Name: "no launcher", framework: train.Horovod}
)

// torchrunDefaults is torchrun with its own settings.
const torchrunDefaults = "torchrun-defaults"

// PyTorch's launchers. After a restart by torchrun, training resumes from a checkpoint.
var (
	torchrun       = launcher{Name: "torchrun", framework: train.Torch, command: peerCommand("torchrun"), args: checkpoints}
	torchft        = launcher{Name: "torchft", framework: train.Torchft, command: peerCommand("torchft"), needs: "bin/torchft"}
	koloTorch      = koloRun("Kolo", train.Torch)
	torchLaunchers = []launcher{torchrun, torchft, koloTorch}
	// koloBroadcast is Kolo without sending state in the background.
	koloBroadcast = launcher{Name: "Kolo without background", framework: train.Torch, command: func(o *options) []string {
		return append([]string{"env", "KOLO_TORCH_BACKGROUND=0"}, koloTorch.command(o)...)
	}}
	stateLaunchers = []launcher{torchft, koloTorch, koloBroadcast}
	koloRestart    = launcher{Name: "Kolo", framework: train.Torchrun, args: checkpoints, command: func(o *options) []string {
		// The old processes end with their next checkpoint.
		return append(koloTorch.command(o), "-mode", "restart", "-checkpoint-path", "checkpoint")
	}}
	checkpoints = []string{"--commit-every=0", "--checkpoint=checkpoint", "--checkpoint-every=20"}
)

func koloRun(name string, f train.Framework, args ...string) launcher {
	return launcher{Name: name, framework: f, args: args, command: func(o *options) []string { return f.Run(o.root, "--network-interface", "lo") }}
}

// those returns the launchers that -launchers selects and that are installed.
func (o *options) those(launchers []launcher) []launcher {
	return slices.DeleteFunc(slices.Clone(launchers), func(l launcher) bool {
		return o.launchers != "" && !slices.Contains(strings.Split(strings.ToLower(o.launchers), ","), strings.ToLower(l.Name)) || !o.has(l)
	})
}

// has reports whether a launcher is installed.
func (o *options) has(l launcher) bool {
	_, err := os.Stat(filepath.Join(o.root, l.needs))
	return l.needs == "" || err == nil
}
