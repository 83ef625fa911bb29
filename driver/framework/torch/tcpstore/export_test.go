// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore

import (
	"bufio"
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// Limits are limits for tests.
type Limits = limits

// ListenLimits is Listen with limits of the test's.
func ListenLimits(p Process, callers gate.Callers, logger hclog.Logger, bounds Limits) (*Server, error) {
	return listen(p, callers, logger, bounds)
}

// Used is what the requests that the server has not answered take, in bytes.
func (s *Server) Used() int64 { return s.budget.used.Load() }

// Open is how many connections there are.
func (s *Server) Open() int { return len(s.open) }

// ReadRequest reads one request after its first byte; used is what it takes of a budget.
func ReadRequest(first byte, rest io.Reader, most int64) (op store.Op, used int64, err error) {
	b := &budget{most: most}
	req, err := (&requestReader{r: bufio.NewReader(rest), budget: b}).read(command(first))
	return req.op, b.used.Load(), err
}
