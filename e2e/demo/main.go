// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command demo shows elastic training on a real Nomad cluster of this machine:
// it starts a server and three clients, submits a PyTorch job with Horovod, and
// lets it grow and shrink by what `nomad job scale` does. It needs about a
// minute, and leaves nothing behind.
//
//	make demo
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

func main() {
	// The cluster ends itself on a signal; this ends what waits for it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	walk := flags.String("walk", "1,4,2,3", "numbers of workers, one after the other, each at most 4")
	each := flags.Duration("each", 8*time.Second, "time to train with each number")
	if err := flags.Parse(args); err != nil {
		return err
	}
	counts, err := parseWalk(*walk)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}

	screen := &screen{began: time.Now()}
	screen.say("starting Nomad: one server and three clients")
	driver := filepath.Join(root, "bin/nomad-driver-horovod")
	python := filepath.Join(root, ".venv/bin/python")
	c, err := cluster.Start(ctx, cluster.Options{
		Nomad:   filepath.Join(root, "bin/nomad"),
		Plugins: map[string]string{driver: fmt.Sprintf("allow_isolation_none = true\npython = %q", python)},
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			kept := filepath.Join(root, "e2e/.work/demo")
			err = errors.Join(err, c.KeepLogs(kept))
			screen.say("logs of agents and allocations: %s", kept)
		}
		err = errors.Join(err, c.Stop())
	}()
	screen.say("Nomad is at %s until the demo ends; look: bin/nomad job status -address=%s demo", c.Address, c.Address)

	show := &show{c: c, screen: screen, dir: filepath.Join(c.Dir, "demo")}
	if err := show.submit(ctx, root, python, counts[0]); err != nil {
		return err
	}
	for i, n := range counts {
		if i > 0 {
			if err := show.scale(ctx, n); err != nil {
				return err
			}
		}
		if err := show.watch(ctx, n, *each); err != nil {
			return err
		}
	}
	if err := show.finish(ctx); err != nil {
		return err
	}
	return show.summary()
}

// parseWalk reads "1,4,2".
func parseWalk(text string) ([]int, error) {
	var counts []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || n > 4 {
			return nil, fmt.Errorf("-walk: %q is no number from 1 to 4", field)
		}
		counts = append(counts, n)
	}
	return counts, nil
}
