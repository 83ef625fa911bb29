// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// policyExplainCommand describes one policy, or what it would do.
type policyExplainCommand struct{ meta }

var _ cli.CommandAutocomplete = (*policyExplainCommand)(nil)

// Synopsis implements cli.Command.
func (c *policyExplainCommand) Synopsis() string { return "Explain a scheduling policy" }

// Help implements cli.Command.
func (c *policyExplainCommand) Help() string {
	return `Usage: kolo policy explain [options] <policy>

  Shows what a policy does, where it comes from, what information it uses, and
  which options it has:

      $ kolo policy explain tiresias

  With a snapshot it shows what the policy would do there, and why:

      $ kolo policy explain -snapshot now.json 'afs-l(blind=true)'

Options:

  -snapshot=<file>
    Snapshot to decide on, as JSON with the fields of policy.Snapshot.

  -json
    Print as JSON.
`
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *policyExplainCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictSet(builtin.Policies.Names()...)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *policyExplainCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-snapshot": complete.PredictFiles("*.json"), "-json": complete.PredictNothing}
}

// Run implements cli.Command.
func (c *policyExplainCommand) Run(args []string) int {
	f := c.flags("policy explain")
	snapshot := f.String("snapshot", "", "")
	asJSON := f.Bool("json", false, "")
	if err := f.Parse(args); err != nil {
		return c.usage(err, f, c.Help())
	}
	if f.NArg() != 1 {
		return c.usage(fmt.Errorf("kolo policy explain takes one policy, got %q; kolo policy list names them all", f.Args()), f, c.Help())
	}
	spec := f.Arg(0)
	p, err := builtin.Policies.Parse(spec)
	if err != nil {
		c.UI.Error(err.Error())
		return 1
	}
	if *snapshot != "" {
		return c.decide(p, *snapshot, *asJSON)
	}
	info, _ := builtin.Policies.Describe(p.Name())
	if *asJSON {
		return c.printJSON(info)
	}
	c.UI.Output(explain(info))
	return 0
}

// explain formats the description of a policy for a terminal.
func explain(info registry.Info) string {
	var b strings.Builder
	field := func(name, text string) {
		fmt.Fprintf(&b, "%-8s %s\n", name, wrap(text, 69, strings.Repeat(" ", 9)))
	}
	field("Policy", info.Name)
	field("Does", info.Doc)
	field("Source", info.Source)
	field("Needs", info.Needs)
	field("Trusts", info.Trusts.String())
	if len(info.Options) == 0 {
		b.WriteString("\nIt has no options.")
		return b.String()
	}
	b.WriteString("\nOptions:\n")
	for _, o := range info.Options {
		fmt.Fprintf(&b, "\n  %s (%s, default %s)\n      %s\n", o.Name, o.Type, o.Default, wrap(o.Doc, 72, "      "))
	}
	return strings.TrimRight(b.String(), "\n")
}

// decide prints the decision of a policy for a snapshot.
func (c *policyExplainCommand) decide(p policy.Policy, path string, asJSON bool) int {
	raw, err := os.ReadFile(path)
	if err != nil {
		c.UI.Error(err.Error())
		return 1
	}
	var s policy.Snapshot
	if err := json.Unmarshal(raw, &s); err != nil {
		c.UI.Error(fmt.Sprintf("%s: %v", path, err))
		return 1
	}
	d := p.Allocate(&s)
	if asJSON {
		return c.printJSON(d)
	}
	width := len("job")
	for _, a := range d.Allocations {
		width = max(width, len(a.Job))
	}
	c.UI.Output(fmt.Sprintf("%-*s  now  then  why", width, "job"))
	for i, a := range d.Allocations {
		c.UI.Output(fmt.Sprintf("%-*s  %3d  %4d  %s", width, a.Job, s.Jobs[i].Count, a.Count, a.Reason))
	}
	return 0
}
