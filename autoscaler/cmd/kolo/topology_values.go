// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// values holds the values of a level in one node pool.
type values struct {
	level   string
	names   []string // in the order of the tree
	twice   []string // names under several parents
	without int      // number of nodes without a value
	unread  int      // number of nodes not read yet
}

// valuesOf returns the values of a level. It returns an error unless exactly one
// pool has it.
func valuesOf(pools []api.PoolTopology, level string) (*values, error) {
	var of []*api.PoolTopology
	var names, levels []string
	for i := range pools {
		p := &pools[i]
		levels = append(levels, fmt.Sprintf("%s has %s", p.Pool, strings.Join(p.Levels, ", ")))
		if slices.Contains(p.Levels, level) {
			of = append(of, p)
			names = append(names, p.Pool)
		}
	}
	switch {
	case len(of) == 0:
		return nil, fmt.Errorf("no node pool has the level %s: %s; add it to topology { levels } of the pool in the autoscaler's configuration", level, strings.Join(levels, "; "))
	case len(of) > 1:
		return nil, fmt.Errorf("the node pools %s have the level %s; write -pool=<name>, that of the job", strings.Join(names, " and "), level)
	}
	v := &values{level: level, unread: of[0].Unread}
	v.collect(of[0].Domains, slices.Index(of[0].Levels, level))
	if v.names == nil {
		return nil, errors.Join(fmt.Errorf("no node of pool %s has a value of %s", of[0].Pool, level), v.reading())
	}
	return v, nil
}

func (v *values) collect(all []api.Domain, below int) {
	for i := range all {
		d := &all[i]
		switch {
		case below > 0:
			v.collect(d.Domains, below-1)
		case d.Missing:
			v.without += d.Nodes
		case slices.Contains(v.names, d.Name):
			if !slices.Contains(v.twice, d.Name) {
				v.twice = append(v.twice, d.Name)
			}
		default:
			v.names = append(v.names, d.Name)
		}
	}
}

func (v *values) reading() error {
	if v.unread == 0 {
		return nil
	}
	return fmt.Errorf("the values of %d nodes are still being read; try again in a moment", v.unread)
}

// warnings describes the nodes and values that the list cannot represent.
func (v *values) warnings() []string {
	var out []string
	if err := v.reading(); err != nil {
		out = append(out, err.Error())
	} else if v.without > 0 {
		out = append(out, fmt.Sprintf("nodes without a value of %s, which get no group: %d", v.level, v.without))
	}
	if v.twice != nil {
		out = append(out, fmt.Sprintf("values of %s in several places, which get only one group each: %s", v.level, strings.Join(v.twice, ", ")))
	}
	return out
}
