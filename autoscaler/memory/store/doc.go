// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package store keeps what must outlive an autoscaler in Nomad variables.
//
//	kolo/overrides     overrides: what users set while autoscalers run
//	kolo/history/00…  history: 64 shards of jobs and kinds, compressed
//	kolo/history/states/00…  what policies asked to keep
//
// Only the leader writes the history, and only what has changed. Any autoscaler may write
// overrides, on condition that they are still those that it read.
package store
