// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package notify calls webhooks for events of the autoscaler.
//
//	controller ─ Event ─> Sender ─ one queue for each webhook ─> POST, with retries
//
// A webhook is somebody else's server: it may hang, fail or redirect, and none of that delays the
// autoscaler or another webhook. What does not fit a queue is dropped and logged.
package notify
