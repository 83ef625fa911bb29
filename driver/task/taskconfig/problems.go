// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig

import (
	"fmt"
	"strings"
)

// Problems collects all that is wrong with a configuration, so that a user who
// made three mistakes need not submit the job three times. Each is a sentence that
// states which field, which value, and what to do. Nomad shows them as the task
// event "Driver Failure".
type Problems []string //nolint:errname // an error only once Err returns it

// Addf adds one.
func (p *Problems) Addf(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// Add adds several.
func (p *Problems) Add(more []string) { *p = append(*p, more...) }

// Err is nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error is one line: task events have no room for more.
func (p Problems) Error() string { return strings.Join(p, "; ") }
