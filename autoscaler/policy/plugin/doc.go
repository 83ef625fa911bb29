// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin runs scheduling policies that users write, each in a process
// of its own, in any language that speaks gRPC.
//
//	policy_dir/kolo-policy-mine ──(go-plugin handshake, gRPC)── Host ── policy.Policy "mine"
//
// In Go a policy is a main function that calls Serve with a policy.Policy. Other
// languages implement policypb/policy.proto and print go-plugin's handshake line
// (examples/python). A program is started when its policy is first asked, restarted when
// its file changes, and killed when it does not answer in time. TryAllocate returns an
// error while the program is unavailable, and the caller keeps the last decision in
// force. The caller does the same for any decision that policy.Validate refuses, external
// or built-in.
//
// A policy's process gets only PATH, HOME and LANG from the environment. It cannot read
// the autoscaler's environment from /proc, so it sees no Nomad token there. It still runs
// as the autoscaler's user and can read every file that this user may read, such as a
// token or a configuration file; as root, that is every file.
package plugin
