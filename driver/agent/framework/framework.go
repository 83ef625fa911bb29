// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package framework is an agent's interface to a training framework. The program passes
// hosts and leader their parts of it, so that neither depends on a particular
// framework.
//
//	Framework ── Host ──────> host.Framework, one per host
//	    ├─────── Exchange ──> leader.Exchange, one per ring
//	    └─────── Elastic ───> elastic.Options
package framework

import (
	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Framework is a training framework.
type Framework struct {
	// Elastic describes the framework to the membership state machine.
	Elastic elastic.Framework
	// Host returns the framework's part in one host.
	Host func(Options) host.Framework
	// Exchange returns the leader's part in the exchange of one ring.
	Exchange func() leader.Exchange
}

// Options are the settings that all processes of a host share.
type Options struct {
	Host elastic.HostID
	// Job is the job's name.
	Job string
	// Mode is settings.Restart.Mode.
	Mode string
	// Replica is how many processes share one copy of a sharded model. With 0 or 1,
	// each process has the whole model.
	Replica int
	// Interface is the network interface for training traffic; if empty, the framework
	// chooses.
	Interface string
	Logger    hclog.Logger
}
