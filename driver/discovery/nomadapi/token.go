// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadapi

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNoIdentity means that the agent has no workload identity.
var ErrNoIdentity = errors.New("no workload identity")

// Token is the location of an agent's workload identity. It is read again at each
// use, since Nomad renews the identity before it expires.
type Token struct {
	// File is the file that Nomad writes the identity to, empty if there is none.
	File string
	// Env is the environment variable to read if there is no file. Nomad cannot
	// renew it while the task runs.
	Env string
}

// Read returns the identity. Its error states what the job specification lacks.
func (t Token) Read() (string, error) {
	if t.File != "" {
		b, err := os.ReadFile(t.File)
		if err != nil {
			return "", fmt.Errorf("%w: %w; give the task an `identity { env = true file = true }` block", ErrNoIdentity, err)
		}
		if s := strings.TrimSpace(string(b)); s != "" {
			return s, nil
		}
		return "", fmt.Errorf("%w: %s is empty; Nomad has written none yet, or was stopped while it did", ErrNoIdentity, t.File)
	}
	if t.Env != "" {
		if s := strings.TrimSpace(os.Getenv(t.Env)); s != "" {
			return s, nil
		}
		return "", fmt.Errorf("%w: %s is not set; give the task an `identity { env = true file = true }` block", ErrNoIdentity, t.Env)
	}
	return "", fmt.Errorf("%w: neither a file nor a variable is configured; give the task an `identity { env = true file = true }` block", ErrNoIdentity)
}
