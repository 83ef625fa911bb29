// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// Config is a complete, checked configuration.
type Config struct {
	Name      string
	LogLevel  string
	LogJSON   bool
	PolicyDir string // "" is none

	Nomad     Nomad
	HTTP      HTTP
	Leader    Leader
	Planner   Planner
	Telemetry Telemetry
	Usage     Usage
	Pools     map[string]Pool // by node pool, AnyPool included
	Notify    []Notify

	// Warnings are for the log: nothing is wrong yet.
	Warnings []string
}

func (c *Config) settings() settings {
	host, err := os.Hostname()
	if err != nil {
		host = "kolo"
	}
	return settings{
		define("name", &c.Name, host, text, "Name of this autoscaler among its peers.").or("host name"),
		define("log_level", &c.LogLevel, "info", oneOf("trace", "debug", "info", "warn", "error"), "Least severe log lines that are written."),
		define("log_json", &c.LogJSON, false, boolean, "Writes log lines as JSON."),
		define("policy_dir", &c.PolicyDir, "", path, "Directory of the programs of external policies.").or("none"),
	}
}

// Nomad describes how to reach Nomad. Empty fields are taken from the NOMAD_*
// environment, as Nomad's own command line does.
type Nomad struct {
	Address, Region, Token    string
	Namespace                 string
	CACert, CAPath, Cert, Key string
	TLSServerName             string
	SkipVerify                bool
	Timeout                   time.Duration
	WritesPerSecond           int
	Resync                    time.Duration
}

func (n *Nomad) settings() settings {
	return settings{
		define("address", &n.Address, "", text, "Address of Nomad; `unix:///…` is the socket of the Task API.").or("`NOMAD_ADDR`"),
		define("region", &n.Region, "", text, "Region of Nomad.").or("`NOMAD_REGION`"),
		define("token", &n.Token, "", text, "Token or workload identity that the autoscaler presents.").or("`NOMAD_TOKEN`"),
		define("namespace", &n.Namespace, "*", text, "Namespace whose jobs are scaled; `*` means all namespaces that the token may read."),
		define("ca_cert", &n.CACert, "", existing, "Certificate of the authority that signed Nomad's, in PEM.").or("`NOMAD_CACERT`"),
		define("ca_path", &n.CAPath, "", existing, "Directory of such certificates.").or("`NOMAD_CAPATH`"),
		define("client_cert", &n.Cert, "", existing, "Certificate that the autoscaler presents to Nomad, in PEM.").or("`NOMAD_CLIENT_CERT`"),
		define("client_key", &n.Key, "", existing, "Key of that certificate, in PEM.").or("`NOMAD_CLIENT_KEY`"),
		define("tls_server_name", &n.TLSServerName, "", text, "Name in Nomad's certificate, such as `server.global.nomad`; required where `address` has an IP address.").or("`NOMAD_TLS_SERVER_NAME`"),
		define("skip_verify", &n.SkipVerify, false, boolean, "Accepts any certificate of Nomad.").or("`NOMAD_SKIP_VERIFY`"),
		define("timeout", &n.Timeout, 10*time.Second, duration("1s", "10m"), "Time limit of one request."),
		define("writes_per_second", &n.WritesPerSecond, 200, whole(1, 10000), "Upper bound on scale requests."),
		define("resync", &n.Resync, time.Minute, duration("1s", "1h"), "Longest time between two full lists while events arrive."),
	}
}

// Leader holds the settings of the election among several autoscalers.
type Leader struct {
	Namespace, Path string
	TTL, Delay      time.Duration
}

func (l *Leader) settings() settings {
	return settings{
		define("namespace", &l.Namespace, "default", text, "Namespace of the variable whose lock elects the leader."),
		define("path", &l.Path, "kolo/leader", text, "Path of that variable."),
		define("ttl", &l.TTL, 15*time.Second, duration("10s", "24h"), "Time after which the leader's lock expires if it is not renewed. Another autoscaler can get the lock after 2 × `ttl` + `delay`."),
		define("delay", &l.Delay, 10*time.Second, duration("1s", "24h"), "Time after the expiry in which Nomad gives the lock to no one."),
	}
}

// Planner holds the timing of decisions and writes.
type Planner struct {
	planner.Options
	Debounce   time.Duration
	ManualHold time.Duration
	ResizeCost time.Duration
	Progress   time.Duration // 0 is never
	Tick       time.Duration
}

func (p *Planner) settings() settings {
	o := planner.DefaultOptions()
	return settings{
		define("hold", &p.Hold, o.Hold, duration("0s", "24h"), "Time after a change of a job's count in which the autoscaler does not change it again."),
		define("placement_timeout", &p.PlacementTimeout, o.PlacementTimeout, duration("1s", "1h"), "Time after which workers that Nomad has not placed are moved to another group or taken back. Unused [room for others](../explanation/decisions.md#what-the-planner-guarantees) is given up after the same time."),
		define("placement_retry", &p.PlacementRetry, o.PlacementRetry, duration("0s", "24h"), "Time after a `placement_timeout` in which the group of the workers does not grow. For this time, no room is kept free for a namespace that left it unused."),
		define("move_timeout", &p.MoveTimeout, o.MoveTimeout, duration("1s", "24h"), "Time after which a move to other groups is undone if its new workers do not train by then."),
		define("manual_hold", &p.ManualHold, 5*time.Minute, duration("0s", "168h"), "Time in which the autoscaler does not change a count that a user has set."),
		define("gc_protection", &p.GCProtection, o.GCProtection, duration("1m", "3h"), "A job without workers is protected from Nomad's garbage collection this long before it would be removed."),
		define("max_writes", &p.MaxWrites, o.MaxWrites, whole(0, 1e6), "Largest number of jobs that are changed in one round; 0 means no limit."),
		define("debounce", &p.Debounce, 100*time.Millisecond, duration("0s", "1m"), "Events within this time are planned together."),
		define("resize_cost", &p.ResizeCost, time.Second, duration("0s", "1h"), "Training time that a resize is assumed to cost until it is measured. In a pool that several namespaces share, the median of their measurements and this value is used."),
		define("progress", &p.Progress, 5*time.Second, duration("0s", "1h"), "Time between two readings of the progress of running jobs; `0s` means never."),
		define("tick", &p.Tick, 30*time.Second, duration("1s", "1h"), "Longest time between two decisions."),
		renamed("hand_hold", "manual_hold"), renamed("keep_alive", "gc_protection"), renamed("batch", "debounce"),
	}
}

// Telemetry holds the settings of the metrics.
type Telemetry struct{ PerJob bool }

func (t *Telemetry) settings() settings {
	return settings{define("per_job", &t.PerJob, true, boolean, "Metrics include series of each job.")}
}

// Usage holds the settings for the account of usage.
type Usage struct{ KeepDays, Jobs int }

func (u *Usage) settings() settings {
	return settings{
		define("keep_days", &u.KeepDays, 400, whole(1, 1000), "Days for which [usage](../glossary.md#usage) is kept."),
		define("jobs", &u.Jobs, 100, whole(1, 1000), "Largest number of jobs that are kept for each namespace and day. The others, which held fewer slot-hours, are added up."),
	}
}

// Default returns the configuration of an autoscaler without a file.
func Default() *Config {
	c := &Config{Pools: map[string]Pool{AnyPool: newPool(AnyPool)}}
	c.Planner.Options = planner.DefaultOptions() // not all of them are settings
	for _, s := range c.blocks() {
		s.reset()
	}
	return c
}

// blocks returns the tables of the blocks without a label, and of the file
// itself.
func (c *Config) blocks() map[string]settings {
	return map[string]settings{
		"": c.settings(), "nomad": c.Nomad.settings(), "http": c.HTTP.settings(), "leader": c.Leader.settings(),
		"planner": c.Planner.settings(), "telemetry": c.Telemetry.settings(), "usage": c.Usage.settings(),
	}
}

// Pool returns the configuration that applies to a node pool.
func (c *Config) Pool(name string) Pool {
	if p, ok := c.Pools[name]; ok {
		return p
	}
	p := c.Pools[AnyPool]
	p.Name = name
	return p
}
