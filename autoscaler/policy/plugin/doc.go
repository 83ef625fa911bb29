// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin runs scheduling policies that users write, each in a process
// of its own, in any language that speaks gRPC.
//
//	policy_dir/kolo-policy-mine ──(go-plugin handshake, gRPC)── Host ── policy.Policy "mine"
//
// In Go a policy is a main that calls Serve with a policy.Policy; other
// languages implement policypb/policy.proto and print go-plugin's handshake
// line (examples/python). A program is started when its policy is first asked,
// started again when its file changes, and killed when it does not answer in
// time. While it is not there TryAllocate returns an error, and the caller
// keeps the last decision in force. The caller does
// the same for a decision that policy.Validate refuses, whether it is that of a
// program or of a built-in policy.
//
// A policy's process gets none of the environment but PATH, HOME and LANG, and
// cannot read the autoscaler's from /proc, so that it sees no Nomad token. It still runs
// as the autoscaler's user: files which that user may read, such as a
// token or a configuration, are open to it, and so is everything where the user
// is root.
package plugin
