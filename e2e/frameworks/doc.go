// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package frameworks tests, verbatim, the scripts of docs/howto/train-with-a-framework.md
// and the code that docs/howto/run-a-torchrun-script.md adds to training frameworks, with
// the newest releases of the frameworks: make frameworks. It resizes training without
// Nomad, and judges by the scripts' records.
package frameworks
