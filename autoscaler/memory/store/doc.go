// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package store keeps in Nomad variables the state that must outlive an autoscaler.
//
//	kolo/overrides     overrides: settings that users change at run time
//	kolo/history/00…  history: 64 shards of jobs, kinds and accounts of queues, compressed
//	kolo/history/states/00…  states of policies
//	kolo/usage/00…    usage: 64 shards of the days that are not archived yet
//	kolo/usage/days/2026-11-28…  archived days
//
// Only the leader writes the history and the usage, and it writes only the changed parts. Any
// autoscaler may write the overrides. A write fails if the overrides have changed
// since that autoscaler read them.
package store
