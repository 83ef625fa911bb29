// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command demo shows how the autoscaler shares a small cluster between elastic training
// jobs. It uses a real Nomad and real PyTorch on this machine, under Horovod or in process:
// a server and three clients with two GPU slots each, `kolo agent`, and three jobs that
// arrive one after the other. A scheduling policy sets the counts, and is changed while the
// jobs run. The demo takes about three minutes. At the end, it prints what the training
// records prove. It leaves only the stand-in GPU library in the folder for temporary files,
// for the next run.
//
//	make demo                   # driver = "horovod"
//	make demo FRAMEWORK=torch   # driver = "torch"
//
// On a terminal, a table similar to `kolo status -watch` is shown below the log of events;
// elsewhere only the events are printed, one line each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

func main() {
	// The cluster ends itself on a signal; this ends whatever waits for it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	framework := flags.String("framework", train.Horovod.Name, "what the jobs train with: horovod or torch")
	first := flags.String("policy", "elastic-fifo", "scheduling `policy` to begin with, without options")
	then := flags.String("then", "weighted-fair(shares={research=2})", "`policy` to change to while jobs run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f, err := train.Named(*framework)
	if err != nil {
		return fmt.Errorf("-framework: %w", err)
	}
	if _, err := builtin.Policies.New(*first, nil); err != nil {
		return fmt.Errorf("-policy: %w", err)
	}
	if _, err := builtin.Policies.Parse(*then); err != nil {
		return fmt.Errorf("-then: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := f.Check(root); err != nil {
		return fmt.Errorf("%w (run `make demo FRAMEWORK=%s` in the project's root)", err, f.Name)
	}

	screen := newScreen(os.Stdout)
	gpu, env, why := standInGPUs(root)
	if gpu {
		screen.say("starting Nomad: one server, %d clients with %d stand-in GPUs each", clients, perClient)
	} else {
		screen.say("starting Nomad: one server, %d clients with %d CPU slots each (no GPUs: %s)", clients, perClient, why)
	}
	if f.Name != train.Horovod.Name {
		screen.say("jobs have driver = %q and run %s with %s", f.Name, f.Script, f.Python)
	}
	driver, config := f.Plugin(root)
	plugins := map[string]string{driver: config}
	if gpu {
		plugins[filepath.Join(root, devicePlugin)] = ""
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Nomad: cluster.Binary(root), Clients: clients, CPU: perClient * slotMHz, Plugins: plugins, Env: env,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			kept := filepath.Join(root, "e2e/.work/demo")
			err = errors.Join(err, c.KeepLogs(kept))
			screen.say("logs of agents and allocations: %s", kept)
		}
		err = errors.Join(err, c.Stop())
	}()
	kolo, err := startKolo(ctx, c, filepath.Join(root, "bin/kolo"), *first, gpu)
	if err != nil {
		return err
	}
	screen.say("Nomad is at %s and kolo agent, with the policy %s, at %s until the demo ends", c.Address, *first, kolo.api.URL)

	s := &show{c: c, kolo: kolo, screen: screen, root: root, framework: f, gpu: gpu}
	if err := s.run(ctx, *then); err != nil {
		return err
	}
	return s.summary(ctx)
}
