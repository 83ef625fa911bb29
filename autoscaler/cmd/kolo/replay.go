// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
	"github.com/kolo-nomad/kolo/autoscaler/api/replay"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// replayCommand serves the web page from a recording.
type replayCommand struct{ meta }

// Synopsis implements cli.Command.
func (c *replayCommand) Synopsis() string { return "Show the web page of a recorded cluster" }

// Help implements cli.Command.
func (c *replayCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo replay [options] FILE

  Serves the web page from a recording of kolo record -page until interrupted,
  and prints its address. The page has a slider for the recorded time. It needs
  neither Nomad nor an autoscaler. Nothing can be changed in a replay.

  Other commands can ask it like an autoscaler: kolo status -address=<addr>.

Replay Options:

  -listen=<host>:<port>
    Where to serve. Port 0 is any free port. Anyone who reaches another address
    than a loopback one can read the recording. Default: 127.0.0.1:0

  -speed=<number>
    Recorded seconds in a second, at most 3600. The page can change it.
    Default: 60
`)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *replayCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-listen": complete.PredictAnything, "-speed": complete.PredictSet("1", "10", "60", "600")}
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *replayCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

// Run implements cli.Command.
func (c *replayCommand) Run(args []string) int {
	f := c.flags("replay")
	listen, speed := f.String("listen", "127.0.0.1:0", ""), f.Float64("speed", 60, "")
	if err := parse(f, args, 1, 1); err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	err := c.replay(ctx, f.Arg(0), *listen, *speed)
	var wrong flagError
	switch {
	case errors.As(err, &wrong):
		return c.usage(err, f, c.Help())
	case err != nil:
		return c.fail(err)
	}
	return 0
}

// replay serves a recording until ctx ends.
func (c *replayCommand) replay(ctx context.Context, path, listen string, speed float64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	rec, err := recording.Open(file, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if n := rec.Torn(); n > 0 {
		c.UI.Warn(printable.Text(fmt.Sprintf("%s: its last %d bytes are not whole, so the replay ends before them", path, n)))
	}
	s, err := replay.NewServer(rec, speed)
	if err != nil {
		return badFlag("-%v", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("-listen=%s: %w", listen, err)
	}
	c.UI.Output(printable.Text(fmt.Sprintf("%s: %s from %s\nhttp://%s", filepath.Base(path),
		rec.To().Sub(rec.From()).Round(time.Second), rec.From().Format(time.DateTime), l.Addr())))
	return s.Serve(ctx, l)
}
