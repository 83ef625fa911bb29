// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package process starts and stops training processes. It copies their output
// line by line, keeps their last lines to explain how they ended, and makes sure
// that none of them outlives the agent. It does not deal with rings.
package process
