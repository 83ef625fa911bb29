// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

const levelsExample = `["meta.block", "meta.rack", "node", "device.island"]`

// levelNames are entries of a topology; together they are checked by
// topology.ParseLevels.
var levelNames = list("levels", levelsExample, func(_ int, s string) (string, string) { return s, "" })

// defaultMigrations lets a job move when the cluster around it changes, and not
// spend its time on moves.
const defaultMigrations = 6

// topologySettings returns the settings of a topology block.
func (p *Pool) topologySettings(names *[]string) settings {
	return settings{
		define("levels", names, nil, levelNames, "Levels, outermost first: `meta.<key>`, `attr.<key>`, `node.datacenter`, `node.class`, `node`, and inside a node one of `device.island`, `device.numa_node`, `device.pcie_switch`, `device.pcie_root`.").or("`[\"node\"]`"),
		define("max_migrations", &p.MaxMigrations, defaultMigrations, whole(0, 60), "How often the workers of one job may move to other groups within an hour, to be closer together or to make room. 0: never."),
	}
}

// topology reads a pool's topology blocks, of which there may be one.
func (p *Pool) topology(blocks hcl.Blocks) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for i, b := range blocks {
		if i > 0 {
			return append(diags, wrong(b.DefRange, "Repeated block", "A pool has one topology; remove all but one."))
		}
		var names []string
		s := p.topologySettings(&names)
		s.reset()
		content, more := s.read(b.Body)
		diags = append(diags, more...)
		a := content.Attributes["levels"]
		switch {
		case more.HasErrors():
			continue
		case a == nil:
			p.Levels, p.Aware = topology.Default(), true
			continue
		case len(names) == 0:
			diags = append(diags, wrong(a.Range, "Wrong value for levels", fmt.Sprintf("There is no level; write levels = %s, or leave it out for %s.", levelsExample, `["node"]`)))
			continue
		}
		levels, err := topology.ParseLevels(names)
		if err != nil {
			diags = append(diags, wrong(entryOf(a, err), "Wrong value for levels", err.Error()))
			continue
		}
		p.Levels, p.Aware = levels, true
	}
	return diags
}

// entryOf returns the position of the level that an error is about: a list may
// be written over several lines.
func entryOf(a *hcl.Attribute, err error) hcl.Range {
	var level *topology.LevelError
	if exprs, diags := hcl.ExprList(a.Expr); !diags.HasErrors() && errors.As(err, &level) && level.Entry < len(exprs) {
		return exprs[level.Entry].Range()
	}
	return a.Range
}
