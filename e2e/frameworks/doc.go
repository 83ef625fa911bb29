// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package frameworks tests what docs/howto/run-a-torchrun-script.md adds to training
// frameworks, as it stands there, with their newest releases: make frameworks. Training
// is resized without Nomad, and what the scripts recorded counts.
package frameworks
