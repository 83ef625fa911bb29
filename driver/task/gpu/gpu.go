// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package gpu knows which NVIDIA GPUs a task has reserved, and how the task's
// processes see them.
//
//	device plugins ──> variables ── Reserved ──> UUIDs ── Show ──> environment
package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

const (
	nvidiaVisible = "NVIDIA_VISIBLE_DEVICES"
	cudaVisible   = "CUDA_VISIBLE_DEVICES"

	// reservationPrefix begins the variable that nomad-device-nvtopo adds for
	// each `device` block of a task. Nomad lets a later block overwrite
	// NVIDIA_VISIBLE_DEVICES of an earlier one, so only these together name all.
	reservationPrefix = "KOLO_GPUS_"
)

// Reserved lists the GPUs (UUIDs) that Nomad reserved for a task, from what
// its device plugins gave (TaskConfig.DeviceEnv). That is the only place to look:
// the task's environment may hold anything, because the job writes it, and after a
// restart of the client Nomad restores neither devices nor mounts.
func Reserved(devices map[string]string) []string {
	var gpus []string
	add := func(value string) {
		for id := range strings.SplitSeq(value, ",") {
			id = strings.TrimSpace(id)
			switch id {
			case "", "none", "void": // words of NVIDIA's container runtime: no reservation
			default:
				if !slices.Contains(gpus, id) {
					gpus = append(gpus, id)
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(devices)) {
		if strings.HasPrefix(key, reservationPrefix) {
			add(devices[key])
		}
	}
	add(devices[nvidiaVisible])
	return gpus
}

// Show makes all reserved GPUs, and no others, visible to every slot.
//
// CUDA itself looks at CUDA_VISIBLE_DEVICES alone, so without it a task with no
// isolation would see the GPUs of its neighbours, and local rank 0 of every
// allocation would take the client's first. It is never narrowed to one GPU per
// slot: scripts pick theirs by local rank. A value inherited from the client's
// own environment must not survive, and nothing that the job's env block sets
// may look like a reservation.
func Show(env, devices map[string]string, gpus []string) {
	maps.DeleteFunc(env, func(key, _ string) bool {
		return key == nvidiaVisible || strings.HasPrefix(key, reservationPrefix)
	})
	maps.Copy(env, devices)
	if len(gpus) == 0 {
		return
	}
	env[nvidiaVisible] = strings.Join(gpus, ",")
	env[cudaVisible] = env[nvidiaVisible]
}

// Check refuses what names no GPU, and what CUDA could not use: a process finds one
// MIG instance, whatever CUDA_VISIBLE_DEVICES lists besides.
func Check(gpus []string) (problems problem.List) {
	mig := 0
	for _, id := range gpus {
		switch {
		case strings.HasPrefix(id, "MIG-"):
			mig++
		case !strings.HasPrefix(id, "GPU-"):
			problems.Add("resources.device", nil, fmt.Sprintf("the client's device plugin reserved %q, which is not the UUID of a GPU", id), "check the plugin")
		}
	}
	if mig > 0 && len(gpus) > 1 {
		problems.Add("resources.device", nil, fmt.Sprintf("%d GPUs are reserved, %d of them MIG instances, and a process that is given one finds no other", len(gpus), mig),
			"reserve a single instance per task (count = 1) and have more of the group")
	}
	return problems
}
