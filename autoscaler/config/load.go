// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/kolo-nomad/kolo/autoscaler/nesting"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Load reads a file, or all *.hcl files of a directory as if they were one.
// An empty path gives the defaults.
func Load(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.hcl")); err != nil {
			return nil, fmt.Errorf("reading configuration: %w", err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("reading configuration: no *.hcl file in %s", path)
		}
		slices.Sort(files)
	}
	sources := map[string][]byte{}
	for _, f := range files {
		if sources[f], err = os.ReadFile(f); err != nil {
			return nil, fmt.Errorf("reading configuration: %w", err)
		}
	}
	return Parse(sources)
}

// Parse reads sources by file name, in alphabetical order.
func Parse(sources map[string][]byte) (*Config, error) {
	parser := hclparse.NewParser()
	var files []*hcl.File
	var diags hcl.Diagnostics
	names := make([]string, 0, len(sources))
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := nesting.File(name, sources[name]); err != nil {
			return nil, err
		}
		f, d := parser.ParseHCL(sources[name], name)
		diags = append(diags, d...)
		if f != nil {
			files = append(files, f)
		}
	}
	if diags.HasErrors() {
		return nil, asError(diags)
	}
	c := Default()
	if diags = c.decode(hcl.MergeFiles(files)); diags.HasErrors() {
		return nil, asError(diags)
	}
	return c, nil
}

// asError puts each diagnostic on a line of its own: file:line: what; fix.
func asError(diags hcl.Diagnostics) error {
	var errs []error
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		where := ""
		if d.Subject != nil {
			where = fmt.Sprintf("%s:%d: ", d.Subject.Filename, d.Subject.Start.Line)
		}
		errs = append(errs, errors.New(where+strings.TrimSuffix(d.Summary, ".")+": "+d.Detail))
	}
	return errors.Join(errs...)
}

func (c *Config) decode(body hcl.Body) hcl.Diagnostics {
	content, diags := settings{
		"name":       text(&c.Name),
		"log_level":  oneOf(&c.LogLevel, "trace", "debug", "info", "warn", "error"),
		"log_json":   truth(&c.LogJSON),
		"policy_dir": text(&c.PolicyDir),
	}.read(body, hcl.BlockHeaderSchema{Type: "nomad"}, hcl.BlockHeaderSchema{Type: "http"}, hcl.BlockHeaderSchema{Type: "leader"},
		hcl.BlockHeaderSchema{Type: "planner"}, hcl.BlockHeaderSchema{Type: "telemetry"},
		hcl.BlockHeaderSchema{Type: "pool", LabelNames: []string{"node pool"}})

	first := map[string]*hcl.Block{}
	for _, b := range content.Blocks {
		key := b.Type
		if b.Type == "pool" {
			key = fmt.Sprintf("pool %q", b.Labels[0])
		}
		if before := first[key]; before != nil {
			diags = append(diags, wrong(b.DefRange, "Repeated block",
				fmt.Sprintf("%s was already written at %s; keep one of the two.", key, before.DefRange.String())))
			continue
		}
		first[key] = b
		diags = append(diags, c.block(b)...)
	}
	return diags
}

func (c *Config) block(b *hcl.Block) hcl.Diagnostics {
	var s settings
	switch b.Type {
	case "pool":
		return c.pool(b)
	case "nomad":
		n := &c.Nomad
		s = settings{
			"address": text(&n.Address), "region": text(&n.Region), "token": text(&n.Token), "namespace": text(&n.Namespace),
			"ca_cert": file(&n.CACert), "ca_path": file(&n.CAPath), "client_cert": file(&n.Cert), "client_key": file(&n.Key),
			"tls_server_name": text(&n.TLSServerName), "skip_verify": truth(&n.SkipVerify),
			"timeout": duration(&n.Timeout, "1s", "10m"), "writes_per_second": whole(&n.WritesPerSecond, 1, 10000),
			"resync": duration(&n.Resync, "1s", "1h"),
		}
	case "http":
		return c.http(b)
	case "leader":
		l := &c.Leader
		s = settings{
			"namespace": text(&l.Namespace), "path": text(&l.Path),
			"ttl": duration(&l.TTL, "10s", "24h"), "delay": duration(&l.Delay, "1s", "24h"),
		}
	case "planner":
		p := &c.Planner
		s = settings{
			"hold": duration(&p.Hold, "0s", "24h"), "placement_timeout": duration(&p.PlacementTimeout, "1s", "1h"),
			"placement_retry": duration(&p.PlacementRetry, "0s", "24h"), "keep_alive": duration(&p.KeepAlive, "1m", "3h"),
			"max_writes": whole(&p.MaxWrites, 0, 1e6), "batch": duration(&p.Batch, "0s", "1m"),
			"hand_hold": duration(&p.HandHold, "0s", "168h"), "resize_cost": duration(&p.ResizeCost, "0s", "1h"),
			"progress": duration(&p.Progress, "0s", "1h"), "tick": duration(&p.Tick, "1s", "1h"),
		}
	case "telemetry":
		s = settings{"per_job": truth(&c.Telemetry.PerJob)}
	}
	_, diags := s.read(b.Body)
	return diags
}

func (c *Config) pool(b *hcl.Block) hcl.Diagnostics {
	p := Pool{Name: b.Labels[0], Policy: policy.Default}
	content, diags := settings{
		"device":   text(&p.Device),
		"cpu_slot": whole(&p.CPUSlot, 1, 1e6),
	}.read(b.Body, hcl.BlockHeaderSchema{Type: "policy", LabelNames: []string{"name"}},
		hcl.BlockHeaderSchema{Type: "queue", LabelNames: []string{"name"}})
	if p.Name == "all" {
		diags = append(diags, wrong(b.LabelRanges[0], "Unusable node pool",
			`"all" is Nomad's word for every node at once; write pool "*" for the pools without a block of their own.`))
	}
	if p.Device != "" && p.CPUSlot != 0 {
		diags = append(diags, wrong(content.Attributes["cpu_slot"].Range, "Contradiction",
			"device and cpu_slot exclude each other; slots are counted in one of them. Remove one."))
	}
	if p.Device == "" && p.CPUSlot == 0 {
		p.Device = "gpu"
	}
	for _, qb := range content.Blocks.OfType("queue") {
		diags = append(diags, p.queue(qb)...)
	}
	for i, pb := range content.Blocks.OfType("policy") {
		if i > 0 {
			diags = append(diags, wrong(pb.DefRange, "Repeated block", "A pool has one policy; remove all but one."))
			break
		}
		p.Policy, p.Options = pb.Labels[0], pb.Body
		diags = append(diags, c.checkPolicy(pb)...)
	}
	c.Pools[p.Name] = p
	return diags
}

// checkPolicy builds the policy once to find its mistakes. One that is not
// built in may come from policy_dir; that is known only when it runs.
func (c *Config) checkPolicy(b *hcl.Block) hcl.Diagnostics {
	name := b.Labels[0]
	if _, ok := policy.Describe(name); !ok {
		if c.PolicyDir != "" {
			if attrs, _ := b.Body.JustAttributes(); len(attrs) > 0 {
				return hcl.Diagnostics{wrong(b.DefRange, "Options for a policy of one's own",
					fmt.Sprintf("Policy %q is not built in, and options are not passed to programs in policy_dir; write policy %q {} and read settings in the program.", name, name))}
			}
			return nil
		}
		return hcl.Diagnostics{wrong(b.LabelRanges[0], "Unknown policy",
			fmt.Sprintf("There is no policy %q; write one of %s, or set policy_dir to where your own are.", name, strings.Join(policy.Names(), ", ")))}
	}
	_, err := policy.New(name, b.Body)
	var diags hcl.Diagnostics
	switch {
	case err == nil:
	case errors.As(err, &diags):
		return diags
	default:
		return hcl.Diagnostics{wrong(b.DefRange, "Policy", err.Error())}
	}
	return nil
}
