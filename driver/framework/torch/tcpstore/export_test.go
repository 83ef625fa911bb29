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

// Limits exports limits for tests.
type Limits = limits

// ListenLimits is Listen with the given limits.
func ListenLimits(p Process, callers gate.Callers, logger hclog.Logger, bounds Limits) (*Server, error) {
	return listen(p, callers, logger, bounds)
}

// Used returns the size in bytes of the requests that the server has not answered yet.
func (s *Server) Used() int64 { return s.budget.used.Load() }

// Open returns the number of connections.
func (s *Server) Open() int { return len(s.open) }

// ReadRequest reads one request after its first byte; used is its share of a budget.
func ReadRequest(first byte, rest io.Reader, most int64) (op store.Op, used int64, err error) {
	b := &budget{most: most}
	req, err := (&requestReader{r: bufio.NewReader(rest), budget: b}).read(command(first))
	return req.op, b.used.Load(), err
}
