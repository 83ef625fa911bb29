// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package audit writes the record of changes: commands of users, and the autoscaler's
// own writes to Nomad. A record is one line of the log, by the logger
// "kolo.audit", at level info.
//
// It names the actor by accessor, workload or user, never by a token. What tenants
// and callers choose (names of jobs, reasons, errors) cannot end the line or color
// it: control characters are escaped, and long texts are cut.
package audit
