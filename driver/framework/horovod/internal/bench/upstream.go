// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

//go:embed upstream.py
var upstreamScript string

// upstream is Horovod's rendezvous server in a Python process of its own.
type upstream struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr string
}

// startUpstream runs the server with a Python that can import horovod, until ctx
// ends.
func startUpstream(ctx context.Context, python string) (*upstream, error) {
	u := &upstream{cmd: exec.CommandContext(ctx, python, "-c", upstreamScript)}
	u.cmd.Stderr = os.Stderr
	in, err := u.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := u.cmd.Start(); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	u.in, u.out = in, bufio.NewReader(out)
	port, err := u.line()
	if err != nil {
		_ = u.stop()
		return nil, fmt.Errorf("upstream did not start (can %s import horovod?): %w", python, err)
	}
	u.addr = net.JoinHostPort("127.0.0.1", port)
	return u, nil
}

// begin empties the server's store for the next ring.
func (u *upstream) begin(slots []rendezvous.Slot) error {
	table := make([][]any, 0, len(slots))
	for _, s := range slots {
		table = append(table, []any{s.Host, s.Rank, s.Size, s.LocalRank, s.LocalSize, s.CrossRank, s.CrossSize})
	}
	if err := json.NewEncoder(u.in).Encode(table); err != nil {
		return err
	}
	answer, err := u.line()
	if err == nil && answer != "ready" {
		err = fmt.Errorf("upstream answers %q", answer)
	}
	return err
}

func (u *upstream) client(int) ringsim.Client { return ringsim.Client{Addr: u.addr} }

func (u *upstream) line() (string, error) {
	line, err := u.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// stop stops the server, whose main thread ends when its input does.
func (u *upstream) stop() error {
	_ = u.in.Close()
	_ = u.cmd.Process.Kill() // its serving thread would keep it alive
	return u.cmd.Wait()
}
