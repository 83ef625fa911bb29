// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package latest passes on values of which only the newest matters.
package latest

// Send puts v into out, a channel of size 1, in place of a value that was not
// received yet. The caller must be the only sender.
func Send[T any](out chan T, v T) {
	select {
	case <-out:
	default:
	}
	out <- v
}
