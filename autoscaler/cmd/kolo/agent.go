// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/posener/complete"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/api/nodump"
	"github.com/kolo-nomad/kolo/autoscaler/api/server"
	"github.com/kolo-nomad/kolo/autoscaler/api/tokens"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller"
	"github.com/kolo-nomad/kolo/autoscaler/notify"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin"
)

// agentCommand runs the daemon.
type agentCommand struct{ meta }

// Synopsis implements cli.Command.
func (c *agentCommand) Synopsis() string { return "Run the autoscaler" }

// Help implements cli.Command.
func (c *agentCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo agent [options]

  Runs the autoscaler until it is interrupted. The address of Nomad is taken from
  the options below, or else from the configuration, or else from the NOMAD_*
  environment variables. SIGHUP, a changed file, and PUT /v1/reload reload the
  configuration; an invalid one changes nothing.

Agent Options:

  -config=<path>
    A file, or a directory whose *.hcl files are read as one.

  -nomad-address=<addr>
    Address of Nomad, or unix:///path for the Task API.

  -http=<host:port>
    Address of the autoscaler's own API. The default is 127.0.0.1:8648; port 0
    takes any free one.

  -name=<name>
    Name among several autoscalers. The default is the host's.

  -log-level=<level>
    trace, debug, info, warn or error.

  -log-json
    Log lines as JSON.
`)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *agentCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{
		"-config": complete.PredictOr(complete.PredictFiles("*.hcl"), complete.PredictDirs("*")), "-nomad-address": complete.PredictAnything,
		"-http": complete.PredictAnything, "-name": complete.PredictAnything, "-log-json": complete.PredictNothing,
		"-log-level": complete.PredictSet("trace", "debug", "info", "warn", "error"),
	}
}

// overrides holds the flags that take precedence over the configuration.
type overrides struct {
	path, nomad, http, name, level string
	json                           bool
}

func (o *overrides) flags(f *flag.FlagSet) {
	f.Func("config", "", func(path string) error {
		if o.path = path; path == "" {
			return errors.New("write the path of a file or directory, or leave -config out for the defaults")
		}
		return nil
	})
	f.StringVar(&o.nomad, "nomad-address", "", "")
	f.StringVar(&o.http, "http", "", "")
	f.StringVar(&o.name, "name", "", "")
	f.StringVar(&o.level, "log-level", "", "")
	f.BoolVar(&o.json, "log-json", false, "")
}

// load reads the configuration and applies the flags.
func (o *overrides) load() (*config.Config, error) {
	c, err := config.Load(o.path)
	if err != nil {
		return nil, err
	}
	c.Nomad.Address, c.Name = cmp.Or(o.nomad, c.Nomad.Address), cmp.Or(o.name, c.Name)
	if o.level != "" {
		if hclog.LevelFromString(o.level) == hclog.NoLevel {
			return nil, badFlag("-log-level=%s: write trace, debug, info, warn or error", o.level)
		}
		c.LogLevel = o.level
	}
	c.LogJSON = c.LogJSON || o.json
	if o.http != "" {
		host, port, err := net.SplitHostPort(o.http)
		if err != nil {
			return nil, badFlag("-http=%s: write host:port, such as 127.0.0.1:8648", o.http)
		}
		c.HTTP.Bind = host
		if c.HTTP.Port, err = strconv.Atoi(port); err != nil {
			return nil, badFlag("-http=%s: the port is not a number", o.http)
		}
	}
	return c, nil
}

// Run implements cli.Command.
func (c *agentCommand) Run(args []string) int {
	var o overrides
	f := c.flags("agent")
	o.flags(f)
	if err := parse(f, args, 0, 0); err != nil {
		return c.usage(err, f, c.Help())
	}
	cfg, err := o.load()
	var wrong flagError
	switch {
	case errors.As(err, &wrong):
		return c.usage(err, f, c.Help())
	case err != nil:
		c.UI.Error(err.Error())
		return 1
	}
	log := audit.Logger(&hclog.LoggerOptions{Name: "kolo", Level: hclog.LevelFromString(cfg.LogLevel), JSONFormat: cfg.LogJSON, Output: os.Stderr})
	if err := nodump.Set(); err != nil {
		log.Warn("other processes of this user can read the token", "error", err)
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	if err := runAgent(ctx, &o, cfg, log); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("autoscaler ended", "error", err)
		return 1
	}
	return 0
}

func runAgent(ctx context.Context, o *overrides, cfg *config.Config, log hclog.Logger) error {
	g, ctx := errgroup.WithContext(ctx)
	external, err := externalPolicies(ctx, g, cfg, log)
	if err != nil {
		return err
	}
	a, err := controller.New(cfg, external, log)
	if err != nil {
		return err
	}
	warn(cfg, log)
	reload := reloader(o, a, log)
	srv := server.New(a, tokens.New(a.Client()), reload, log.Named("http"))
	g.Go(func() error {
		return srv.Serve(ctx, cfg.HTTP, func(at net.Addr) {
			a.Advertise(advertised(cfg.HTTP, at))
			log.Info("HTTP API is up", "address", scheme(cfg.HTTP)+at.String(), "advertised", advertised(cfg.HTTP, at))
			g.Go(func() error { return a.Run(ctx) })
		})
	})
	g.Go(func() error {
		notify.New(notifySource{a}, log.Named("notify")).Run(ctx)
		return nil
	})
	record := audit.New(log, "autoscaler "+cfg.Name)
	g.Go(func() error {
		return reloadOnChange(ctx, func() string { return stamp(o.path, a.Config().HTTP.TLS.Files()) }, func(why string) {
			record.Write(audit.Entry{Action: audit.Reload, Reason: why, Err: reload()})
		})
	})
	return g.Wait()
}

// notifySource is the autoscaler as package notify sees it.
type notifySource struct{ *controller.Controller }

// mostAtOnce is the number of events that one round may publish without a webhook missing one. It
// is about the number of jobs of a large cluster.
const mostAtOnce = 16_384

// Subscribe implements notify.Source.
func (s notifySource) Subscribe() (events <-chan api.Event, stop func()) {
	return s.SubscribeBuffered(mostAtOnce)
}

// Leads implements notify.Source.
func (s notifySource) Leads() bool { return s.Status().Leading }

// JobQueue implements notify.Source.
func (s notifySource) JobQueue(namespace, id string) (pool, queue string) {
	jobs := s.Status().Jobs
	for i := range jobs {
		if jobs[i].Namespace == namespace && jobs[i].ID == id {
			return jobs[i].Pool, jobs[i].Queue
		}
	}
	return "", ""
}

// warn logs settings that are allowed but questionable.
func warn(c *config.Config, log hclog.Logger) {
	for _, w := range c.Warnings {
		log.Warn("configuration", "warning", w)
	}
	if c.HTTP.Open && !c.HTTP.Loopback() {
		log.Warn("http { open } lets everyone who reaches the API change policies and pause jobs", "bind", c.HTTP.Bind)
	}
}

func scheme(c config.HTTP) string {
	if c.TLS.Enabled() {
		return "https://"
	}
	return "http://"
}

// advertised returns the URL at which other autoscalers reach the API: the address
// that it listens on, or the first one of this machine if it listens on all.
func advertised(c config.HTTP, at net.Addr) string {
	if c.Advertise != "" {
		return c.Advertise
	}
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		addrs, _ := net.InterfaceAddrs() // on failure, the address stays as it is
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				return scheme(c) + net.JoinHostPort(n.IP.String(), strconv.Itoa(tcp.Port))
			}
		}
	}
	return scheme(c) + at.String()
}

// reloader returns a function that reloads the configuration. Concurrent calls run
// one after another.
func reloader(o *overrides, a *controller.Controller, log hclog.Logger) func() error {
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		cfg, err := o.load()
		if err == nil {
			err = a.Reload(cfg)
		}
		if err != nil {
			log.Error("configuration not reloaded; the one before stays in force", "error", err)
			return err
		}
		warn(cfg, log)
		log.Info("configuration reloaded")
		return nil
	}
}

// externalPolicyTimeout is how long an external policy may take to start, and to
// make each decision. No round waits for it: its last decision stays in force until
// it answers.
const externalPolicyTimeout = 3 * time.Second

// externalPolicies returns the host of the policies in policy_dir, or nil if that is
// not set. The host ends with the group.
func externalPolicies(ctx context.Context, g *errgroup.Group, cfg *config.Config, log hclog.Logger) (controller.ExternalPolicies, error) {
	if cfg.PolicyDir == "" {
		return nil, nil
	}
	h := plugin.NewHost(cfg.PolicyDir, externalPolicyTimeout, log.Named("policy"))
	names, err := h.Names()
	if err != nil {
		return nil, err
	}
	log.Info("external policies", "dir", cfg.PolicyDir, "found", names)
	g.Go(func() error {
		<-ctx.Done()
		h.Close()
		return nil
	})
	return h, nil
}
