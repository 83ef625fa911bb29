// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package config reads the autoscaler's configuration: HCL from a file or
// from all *.hcl files of a directory, checked so that an agent which starts
// with it, or reloads it, will not trip over it later.
//
//	nomad     { address = "https://nomad.example:4646" }
//	http      { bind = "127.0.0.1" port = 8648 }
//	leader    { path = "kolo/leader" ttl = "15s" }
//	planner   { hold = "30s" }
//	telemetry { per_job = true }
//	pool "default" {
//	  policy "afs-l" { }
//	}
//
// Every error names file and line and says what to write instead. Load never
// returns half a configuration, so that a bad file changes nothing.
package config
