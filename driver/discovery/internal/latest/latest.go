// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package latest passes on values of which only the newest matters.
package latest

// Send puts v in the channel of size 1 in place of one not yet taken. The
// caller is the only sender.
func Send[T any](out chan T, v T) {
	select {
	case <-out:
	default:
	}
	out <- v
}
