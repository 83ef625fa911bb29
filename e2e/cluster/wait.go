// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is the time between two checks. Tests wait for orders of magnitude
// longer.
const pollEvery = 100 * time.Millisecond

// Until calls check until it returns nil, or ctx ends. If ctx ends first, Until
// returns an error with what was waited for and the last error of check.
func Until(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// An error caused by the end of ctx would hide the previous one.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		var fatal *FatalError
		if errors.As(err, &fatal) {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// A FatalError is an error with which a check ends the wait at once, because the
// expected state can no longer be reached.
type FatalError struct{ Reason string }

func (e *FatalError) Error() string { return e.Reason }
