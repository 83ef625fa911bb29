// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// private says that a variable is the agent's and not its slots': its
// configuration, and the task's workload identities. A script that is to talk to
// Nomad reads an identity from its file, which Nomad renews; in the environment
// it ends up in crash reports and experiment trackers. This hides nothing from a
// script that looks for it: script and agent have one user.
func private(name string) bool {
	return name == ConfigVariable || name == "NOMAD_TOKEN" || strings.HasPrefix(name, "NOMAD_TOKEN_")
}

// environment is what one slot is started with: the task's own environment,
// the jobspec's settings, and Horovod's variables (horovod/runner/gloo_run.py,
// create_slot_env_vars and create_run_env_vars). Later entries win.
func (h *Host) environment(a elastic.Assignment, port int, progress string, incarnation int) []string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && !private(k) {
			env[k] = v
		}
	}
	env["PYTHONUNBUFFERED"] = "1"
	if t := time.Duration(h.o.Config.GlooTimeout); t > 0 {
		env["HOROVOD_GLOO_TIMEOUT_SECONDS"] = strconv.Itoa(max(1, int(t.Seconds())))
	}
	if h.o.Interface != "" {
		env["HOROVOD_GLOO_IFACE"] = h.o.Interface
		env["NCCL_SOCKET_IFNAME"] = h.o.Interface
	}
	maps.Copy(env, h.o.Config.Env)
	for k, v := range map[string]int{
		"RANK": a.Rank, "SIZE": a.Size, "LOCAL_RANK": a.LocalRank, "LOCAL_SIZE": a.LocalSize,
		"CROSS_RANK": a.CrossRank, "CROSS_SIZE": a.CrossSize,
	} {
		env["HOROVOD_"+k] = strconv.Itoa(v)
	}
	env["HOROVOD_HOSTNAME"] = string(h.o.ID)
	env["HOROVOD_ELASTIC"] = "1"
	env["HOROVOD_CONTROLLER"] = "gloo"
	env["HOROVOD_CPU_OPERATIONS"] = "gloo"
	env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = "127.0.0.1"
	env["HOROVOD_GLOO_RENDEZVOUS_PORT"] = strconv.Itoa(port)
	env["KOLO_PROGRESS_FILE"] = progress
	env["KOLO_SLOT"] = strconv.Itoa(a.LocalRank)
	env["KOLO_INCARNATION"] = strconv.Itoa(incarnation)
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// interfaceOf returns the name of the interface that carries an address.
func interfaceOf(ip net.IP) (string, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range ifaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return i.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no interface has the address %s", ip)
}
