// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package settings declares the settings of a training job. Each is declared once, with its
// name, default, doc and check.
//
//	jobspec's config ── Read ──┐
//	                           ├──> Setting.Set ──> a field of Training ──> agent
//	`run`'s flags ─────────────┘         (parse and check)
//
// A setting is bound to the variable that it fills, as in package flag, and is a
// flag.Value. So typed code reads plain fields, while the task driver's schema, the
// launcher's flags and the test of the documentation's tables iterate over the same list.
// Training holds the settings that do not depend on the framework; a framework declares its
// own with the same constructors (driver/framework/horovod/options).
//
// The package knows neither Nomad nor a training framework.
package settings
