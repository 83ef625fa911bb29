// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hashicorp/nomad/api"
)

var (
	// ErrForbidden means that Nomad refused the identity.
	ErrForbidden = errors.New("refused by Nomad")
	// ErrUnreachable means that Nomad could not be reached.
	ErrUnreachable = errors.New("cannot reach Nomad")
)

// Explain wraps err, an error of Nomad's API at address, in an error that states
// the cause and what to do about it.
func Explain(err error, address string) error {
	var resp api.UnexpectedResponseError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, address, err)
	case !errors.As(err, &resp) || !resp.HasStatusCode():
		return fmt.Errorf("%w at %s: %w; is the task's Task API socket in place (api.sock in its secrets directory), and the Nomad client running?", ErrUnreachable, address, err)
	case resp.StatusCode() == http.StatusUnauthorized:
		return fmt.Errorf("%w: the workload identity is not valid (401); give the task an `identity { env = true file = true }` block, so that it is renewed: %w", ErrForbidden, err)
	case resp.StatusCode() == http.StatusForbidden:
		return fmt.Errorf("%w: the workload identity may not read services (403); it is expired, or its allocation has ended, or an ACL policy of this job denies list-jobs and read-job: %w", ErrForbidden, err)
	case resp.StatusCode() >= http.StatusInternalServerError:
		return fmt.Errorf("nomad failed to answer (%d), most likely for want of a leader among its servers: %w", resp.StatusCode(), err)
	}
	return fmt.Errorf("nomad answered %d: %w", resp.StatusCode(), err)
}
