// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package gpu finds the NVIDIA GPUs that a task has reserved, and makes exactly
// these visible to the task's processes.
//
//	device plugins ──> variables ── Reserved ──> UUIDs ── Show ──> environment
package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

const (
	nvidiaVisible = "NVIDIA_VISIBLE_DEVICES"
	cudaVisible   = "CUDA_VISIBLE_DEVICES"

	// reservationPrefix begins the variable that nomad-device-nvtopo adds for each
	// `device` block of a task. A later block overwrites an earlier one's
	// NVIDIA_VISIBLE_DEVICES in Nomad, so only these variables together name all
	// GPUs.
	reservationPrefix = "KOLO_GPUS_"

	// numbersPrefix is the prefix of the variable with NVML's indexes of the same GPUs.
	numbersPrefix = "KOLO_GPU_NUMBERS_"
)

// Reserved returns the GPUs (UUIDs) that Nomad reserved for a task, from the
// variables of its device plugins (TaskConfig.DeviceEnv). No other source is
// reliable: the job can write anything into the task's environment, and after a
// restart of the client Nomad restores neither devices nor mounts.
func Reserved(devices map[string]string) []string {
	var gpus []string
	add := func(value string) {
		for id := range strings.SplitSeq(value, ",") {
			id = strings.TrimSpace(id)
			switch id {
			case "", "none", "void": // NVIDIA's container runtime uses these words for no reservation
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

// Numbers returns NVML's indexes of the GPUs that Nomad reserved for a task, each once. It
// returns none if another device plugin reserved them. shared reports whether some are MIG
// instances, so that other tasks may use the rest of a GPU.
func Numbers(devices map[string]string) (numbers []int, shared bool) {
	for _, key := range slices.Sorted(maps.Keys(devices)) {
		if !strings.HasPrefix(key, numbersPrefix) {
			continue
		}
		for text := range strings.SplitSeq(devices[key], ",") {
			if n, err := strconv.Atoi(text); err == nil && !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers, slices.ContainsFunc(Reserved(devices), func(id string) bool { return strings.HasPrefix(id, "MIG-") })
}

// Show makes all reserved GPUs, and no others, visible to every slot.
//
// CUDA itself looks only at CUDA_VISIBLE_DEVICES. Without it, a task without
// isolation would see its neighbours' GPUs, and local rank 0 of every allocation
// would use the client's first GPU. Show never narrows the list to one GPU per
// slot, because scripts select their GPU by local rank. It removes a value
// inherited from the client's own environment, and anything in the job's env block
// that looks like a reservation.
func Show(env, devices map[string]string, gpus []string) {
	maps.DeleteFunc(env, func(key, _ string) bool {
		return key == nvidiaVisible || strings.HasPrefix(key, reservationPrefix) || strings.HasPrefix(key, numbersPrefix)
	})
	maps.Copy(env, devices)
	if len(gpus) == 0 {
		return
	}
	env[nvidiaVisible] = strings.Join(gpus, ",")
	env[cudaVisible] = env[nvidiaVisible]
}

// Check refuses reservations that name no GPU, and reservations that CUDA could not
// use: a process can use only one MIG instance, even if CUDA_VISIBLE_DEVICES lists
// others.
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
