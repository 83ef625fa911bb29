// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package ringsim simulates rings for tests and measurements: agents with
// real endpoints and stores, a leader that is a function call away, and
// training processes that speak HTTP exactly as Gloo's C++ client does, down
// to one connection per request and a poll every ten milliseconds.
package ringsim
