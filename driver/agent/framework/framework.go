// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package framework is a training framework as an agent needs it. Hosts and leader
// get their parts of it from the program that they run in, and name none.
//
//	Framework ── Host ──────> host.Framework, one a host
//	    ├─────── Exchange ──> leader.Exchange, one a ring
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
	// Elastic is what the membership state machine needs to know.
	Elastic elastic.Framework
	// Host returns the part of one host.
	Host func(Options) host.Framework
	// Exchange returns the leader's part in the exchange of one ring.
	Exchange func() leader.Exchange
}

// Options are what the processes of a host have in common.
type Options struct {
	Host elastic.HostID
	// Job is the job's name.
	Job string
	// Mode is settings.Restart's.
	Mode string
	// Replica is how many processes share one copy of a sharded model; 0 and 1: each
	// has all of it.
	Replica int
	// Interface is the network interface of training traffic, empty for the
	// framework's choice.
	Interface string
	Logger    hclog.Logger
}
