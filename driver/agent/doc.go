// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package agent is the process that runs inside an allocation of an elastic job: it starts
// the allocation's slots, and leads the ring if it is elected. This package is the wiring;
// the parts are below it:
//
//	config       the configuration from the driver plugin
//	host         the allocation's slots
//	leader       the ring, on one agent of the job
//	wire         the messages between hosts and leader, and the job's status
//	framework    the interfaces to the training framework
//	session      gRPC between hosts and a leader elsewhere
//	port         the agent's port: gRPC and HTTP, and limits of both
//	statusapi    /v1/status and /metrics
//	completion   the record in Nomad that training is complete
//	process      training processes
//	events       events for the user
//
// Package discovery finds the other agents and elects the leader. Main gets all frameworks
// that the program supports; the task's configuration selects one.
//
//	Main ── config.Read ──> agent.run ──> completion: nothing left to train?
//	                            │──> discovery: registry, certificates, elector
//	                            └──> serve: host.Run next to port, presence, elector
//	                                        follow: lead, or attend another's leader
package agent
