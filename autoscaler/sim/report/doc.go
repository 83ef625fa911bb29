// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package report shows the outcome of a simulation: as a table for a
// terminal or for Markdown, as JSON, as CSV, and as one HTML file with its
// plots inside, which opens without a network.
//
// Nothing in a report depends on when or where it was made, so equal
// simulations give equal bytes.
package report
