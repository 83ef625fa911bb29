// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"strings"
)

// problems collects all that is wrong with a configuration, so that a user who
// made three mistakes need not submit the job three times. Each is a sentence that
// states which field, which value, and what to do. Nomad shows them as the task
// event "Driver Failure".
type problems []string

func (p *problems) addf(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

func (p *problems) add(more []string) { *p = append(*p, more...) }

// err is nil when there are none.
func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error is one line: task events have no room for more.
func (p problems) Error() string { return strings.Join(p, "; ") }
