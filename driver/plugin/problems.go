// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"strings"
)

// problems collects all that is wrong with a configuration, so that a user who
// made three mistakes need not submit the job three times. Each states which
// field, which value, and what to do.
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
	return &configError{Problems: p}
}

// configError is a configuration that cannot be run as it stands. Nomad shows
// its text as the task event "Driver Failure".
type configError struct {
	// Problems holds one sentence for each mistake.
	Problems []string
}

// Error is one line: task events have no room for more.
func (e *configError) Error() string { return strings.Join(e.Problems, "; ") }
