// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package notify sends events of the autoscaler to webhooks.
//
//	controller ─ Event ─> Sender ─ one queue for each webhook ─> POST, with retries
//
// The server of a webhook may hang, fail or redirect. None of that delays the autoscaler or
// another webhook. If a queue is full, events are dropped and logged.
package notify
