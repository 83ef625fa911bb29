// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package autoscaler tests the kolo binary against a real Nomad with access
// control on: small raw_exec tasks in CPU slots, three clients, agents that
// are killed, an API that fails.
//
//	go test -tags e2e ./e2e/autoscaler
//
// That counts never ask for more than the capacity is read off Nomad itself:
// asking for too much leaves a blocked evaluation behind, which Nomad lists
// (TriggeredBy queued-allocs) until it is collected.
package autoscaler
