// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Variable is the environment variable that names the file with the agent's
// Config.
const Variable = "KOLO_AGENT_CONFIG"

// Config configures an agent. The driver plugin writes it as JSON into the file that
// Variable names; the `run` subcommand builds it from its flags.
type Config struct {
	// Framework is the name of the training framework. It is also the name of the task
	// driver and of the block with the framework's own settings.
	Framework string `json:"framework"`
	// Command and Args start one slot. Command is looked up in PATH.
	Command string   `json:"command"`
	Args    []string `json:"args"`
	// Dir is the slots' working directory; if empty, the agent's own.
	Dir string `json:"dir,omitempty"`
	// Env is added to every slot's environment. It has, for example, the framework's
	// settings.
	Env map[string]string `json:"env,omitempty"`
	// RunEnv is added before Env. It is not part of a training's identity: changing it does
	// not make a completed job train again.
	RunEnv map[string]string `json:"run_env,omitempty"`

	settings.Training
	// Restart configures how processes that can't change their ring are replaced.
	Restart settings.Restart `json:"restart,omitzero"`
	// StopFile is the file into which the driver writes the time at which the task will
	// be killed (RFC 3339, one line), before it sends the stop signal.
	StopFile string `json:"stop_file,omitempty"`

	// Interface is the network interface for training traffic. If it is empty, the agent
	// uses the interface that has the host's service address.
	Interface string `json:"interface,omitempty"`

	// OwnNetwork states that the task's group has a network of its own. The service
	// address then has to be the allocation's.
	OwnNetwork bool `json:"own_network,omitempty"`

	// Topology is the host's place in the network; see elastic.CheckTopology.
	Topology string `json:"topology,omitempty"`

	// Service is the Nomad service by which this job's agents find each other.
	Service string `json:"service"`
	// Listen is the address to listen at, for other agents and users. They find the
	// agent's address in Nomad's registry.
	Listen string `json:"listen"`

	// Nomad's names for this host.
	Namespace string `json:"namespace"`
	JobID     string `json:"job_id"`
	Group     string `json:"group"`
	Task      string `json:"task"`
	AllocID   string `json:"alloc_id"`
	// Index is the allocation's index within its group.
	Index int `json:"index"`

	// NomadAddr is the Task API socket ("unix:///secrets/api.sock") or an
	// HTTP address.
	NomadAddr string `json:"nomad_addr"`
	// TokenFile holds the workload identity for reading the registry. It also proves
	// this agent to others, unless PeerTokenFile is set.
	TokenFile string `json:"token_file,omitempty"`
	// PeerTokenFile holds an identity with audience "kolo", which proves this agent to
	// others.
	PeerTokenFile string `json:"peer_token_file,omitempty"`

	// Cgroup is the ID of the cgroup (version 2) that has the task's processes and no
	// others, 0 if there is none.
	Cgroup uint64 `json:"cgroup,omitempty"`
	// Memory is the memory limit of the task in bytes, 0 if there is none.
	Memory int64 `json:"memory,omitempty"`

	// LogDir receives one log per slot, ProgressDir the progress files, and EventFile
	// the JSON lines that the plugin turns into task events.
	LogDir      string `json:"log_dir"`
	ProgressDir string `json:"progress_dir"`
	EventFile   string `json:"event_file,omitempty"`
}

// Read reads the Config from a file.
func Read(path string) (Config, error) {
	var c Config
	if path == "" {
		return c, fmt.Errorf("%s is not set: the agent is started by the driver", Variable)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if c.LeaveTimeout <= 0 || c.Framework == "" { // a plugin of this version always sets them
		return c, fmt.Errorf("%s is of another version of the driver plugin: restart the Nomad client, which runs that one", path)
	}
	return c, nil
}
