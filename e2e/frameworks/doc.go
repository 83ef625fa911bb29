// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package frameworks tests the scripts of docs/howto/train-with-a-framework.md, and what
// docs/howto/run-a-torchrun-script.md adds to training frameworks, as they stand there,
// with the newest releases of the frameworks: make frameworks. Training
// is resized without Nomad, and what the scripts recorded counts.
package frameworks
