// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package config reads the autoscaler's configuration: HCL from a file or from all
// *.hcl files of a directory, checked so that an autoscaler that starts with it, or
// reloads it, does not fail because of it later.
//
//	nomad     { address = "https://nomad.example:4646" }
//	http      { bind = "127.0.0.1" port = 8648 }
//	leader    { path = "kolo/leader" ttl = "15s" }
//	planner   { hold = "30s" }
//	telemetry { per_job = true }
//	pool "default" {
//	  policy "afs-l" { }
//	  topology { levels = ["meta.rack", "node"] }
//	}
//
// Each setting is one line of its block's table (define): name, field, default,
// format with bounds, description. The table reads files, sets defaults, and is
// the reference in docs.
//
// Every error names file and line and what to write instead. Load never returns
// half a configuration, so that a bad file changes nothing.
package config
