// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package audit records changes: the commands of users, and the autoscaler's own
// writes to Nomad. A record is one line of the log at level info, from the logger
// "kolo.audit".
//
// A record names the actor by accessor, workload or user, never by a token. Tenants
// and callers choose some of the text (names of jobs, reasons, errors). Such text
// cannot end the line or color it: control characters are escaped, and long texts
// are truncated.
package audit
