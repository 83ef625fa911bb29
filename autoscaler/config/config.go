// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// AnyPool is the label of the pool block that stands for every node pool
// without a block of its own.
const AnyPool = "*"

// Config is a complete, checked configuration.
type Config struct {
	Name      string // of this agent among its peers
	LogLevel  string
	LogJSON   bool
	PolicyDir string // executables of policies of one's own, "" is none

	Nomad     Nomad
	HTTP      HTTP
	Leader    Leader
	Planner   Planner
	Telemetry Telemetry
	Pools     map[string]Pool // by node pool, AnyPool included

	// Warnings are for the log: nothing is wrong yet.
	Warnings []string
}

// Nomad says how to reach Nomad. Empty fields are taken from the NOMAD_*
// environment, as Nomad's own command line does.
type Nomad struct {
	Address, Region, Token    string
	Namespace                 string // "*" is all the token may see
	CACert, CAPath, Cert, Key string
	TLSServerName             string
	SkipVerify                bool
	Timeout                   time.Duration // of one request that does not wait
	WritesPerSecond           int           // upper bound on scale requests
	Resync                    time.Duration // full lists at least this often
}

// Leader is the election among several agents.
type Leader struct {
	Namespace, Path string
	TTL, Delay      time.Duration
}

// Planner holds the timing of decisions and writes.
type Planner struct {
	planner.Options
	Batch      time.Duration // events this close together are planned together
	HandHold   time.Duration // how long a count set by a user is honoured
	ResizeCost time.Duration // training time lost to one resize, until it is measured
	Progress   time.Duration // how often running jobs are asked for their progress, 0 is never
	Tick       time.Duration // plan at least this often
}

// Telemetry is what metrics are made of.
type Telemetry struct {
	PerJob bool // metrics with a label per job
}

// Pool is one node pool's policy and how its capacity is counted.
type Pool struct {
	Name    string
	Policy  string
	Options hcl.Body // of the policy; nil is none

	// Device is the device type that slots are counted in ("gpu",
	// "nvidia/gpu"). A pool with CPUSlot has no devices.
	Device string
	// CPUSlot, in MHz, makes slots of CPU shares for jobs without devices.
	CPUSlot int

	// Queues are the operator's rules by queue, AnyQueue included.
	Queues map[string]Queue
}

// Default is the configuration of an agent that is told nothing.
func Default() *Config {
	name, err := os.Hostname()
	if err != nil {
		name = "kolo"
	}
	return &Config{
		Name:     name,
		LogLevel: "info",
		Nomad: Nomad{
			Namespace: "*", Timeout: 10 * time.Second, WritesPerSecond: 200, Resync: time.Minute,
		},
		HTTP:      HTTP{Bind: "127.0.0.1", Port: 8648},
		Leader:    Leader{Namespace: "default", Path: "kolo/leader", TTL: 15 * time.Second, Delay: 10 * time.Second},
		Telemetry: Telemetry{PerJob: true},
		Planner: Planner{
			Options: planner.DefaultOptions(), Batch: 100 * time.Millisecond, HandHold: 5 * time.Minute,
			ResizeCost: time.Second, Progress: 5 * time.Second, Tick: 30 * time.Second,
		},
		Pools: map[string]Pool{AnyPool: {Name: AnyPool, Policy: policy.Default, Device: "gpu"}},
	}
}

// Pool is the configuration that holds for a node pool.
func (c *Config) Pool(name string) Pool {
	if p, ok := c.Pools[name]; ok {
		return p
	}
	p := c.Pools[AnyPool]
	p.Name = name
	return p
}
