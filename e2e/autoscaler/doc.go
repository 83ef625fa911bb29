// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package autoscaler tests the kolo binary against a real Nomad with access
// control: small raw_exec tasks in CPU slots, three clients, agents that are
// killed, and an API that fails.
//
//	go test -tags e2e ./e2e/autoscaler
//
// The tests ask Nomad itself whether counts ever exceeded the capacity. A count
// that is too high leaves a blocked evaluation behind. Nomad lists it (TriggeredBy
// queued-allocs) until it is garbage-collected.
package autoscaler
