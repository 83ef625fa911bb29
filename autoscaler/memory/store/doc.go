// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package store keeps the state that must outlive an autoscaler in Nomad variables.
//
//	kolo/overrides           overrides that users set while autoscalers run
//	kolo/history/00…         history: 64 shards of jobs and kinds, compressed
//	kolo/history/states/00…  states of policies
//
// Only the leader writes the history, and only the parts that have changed. Any autoscaler
// may write overrides, on condition that no one has changed them since it read them.
package store
