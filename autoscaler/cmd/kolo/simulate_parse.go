// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// splitOutside splits at commas outside parentheses, brackets and quotes.
func splitOutside(s string) []string {
	var out []string
	depth, quoted, from := 0, false, 0
	for i, r := range s {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case r == ',' && depth == 0:
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	out = append(out, strings.TrimSpace(s[from:]))
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func numbers(flag, s string) ([]float64, error) {
	var out []float64
	for _, word := range strings.Split(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil {
			return nil, badFlag("-%s: want numbers, got %q", flag, word)
		}
		out = append(out, v)
	}
	return out, nil
}

// parseCosts parses -resize-costs.
func parseCosts(s string, measured map[int]float64) ([]sim.ResizeCost, error) {
	var out []sim.ResizeCost
	for _, word := range strings.Split(s, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "measured":
			if len(measured) == 0 {
				return nil, badFlag("-resize-costs measured: this trace has no measured gaps")
			}
			out = append(out, sim.ResizeCost{BySize: measured})
		case strings.Contains(word, "="):
			bySize := map[int]float64{}
			for _, pair := range strings.Split(word, ";") {
				size, gap, _ := strings.Cut(pair, "=")
				n, err1 := strconv.Atoi(strings.TrimSpace(size))
				v, err2 := strconv.ParseFloat(strings.TrimSpace(gap), 64)
				if err1 != nil || err2 != nil || n < 1 || !(v >= 0) {
					return nil, badFlag("-resize-costs: want SIZE=SECONDS, got %q", pair)
				}
				bySize[n] = v
			}
			out = append(out, sim.ResizeCost{BySize: bySize})
		default:
			v, err := strconv.ParseFloat(word, 64)
			if err != nil || !(v >= 0) {
				return nil, badFlag("-resize-costs: want seconds, measured, or gaps by size, got %q", word)
			}
			out = append(out, sim.ResizeCost{Constant: v})
		}
	}
	return out, nil
}

// parsePlacements parses -placement.
func parsePlacements(s string) ([]sim.Placement, error) {
	var out []sim.Placement
	for _, word := range strings.Split(s, ",") {
		p, err := sim.ParsePlacement(strings.TrimSpace(word))
		if err != nil {
			return nil, badFlag("-placement: %v", err)
		}
		if slices.Contains(out, p) {
			return nil, badFlag("-placement: %s is listed twice", p)
		}
		out = append(out, p)
	}
	return out, nil
}

// mostNodes bounds the nodes of -cluster, and mostOnNode the GPUs of a node.
const (
	mostNodes  = 1_000_000
	mostOnNode = 1_000_000
)

// parseCluster parses -cluster. It returns nil if that is empty.
func parseCluster(s string) ([]trace.Node, map[string]float64, error) {
	if s == "" {
		return nil, nil, nil
	}
	var nodes []trace.Node
	speed := map[string]float64{}
	seen := map[string]bool{}
	racks := 0
	for _, group := range strings.Split(s, ",") {
		bad := badFlag("-cluster: want NODESxGPUS[/RACK][:TYPE[@SPEED]], got %q", group)
		size, typ, _ := strings.Cut(strings.TrimSpace(group), ":")
		size, rack, racked := strings.Cut(size, "/")
		typ, factor, fast := strings.Cut(typ, "@")
		n, g, ok := strings.Cut(size, "x")
		many, err1 := strconv.Atoi(n)
		gpus, err2 := strconv.Atoi(g)
		if !ok || err1 != nil || err2 != nil || many < 1 || gpus < 1 {
			return nil, nil, bad
		}
		if many > mostNodes-len(nodes) || gpus > mostOnNode {
			return nil, nil, badFlag("-cluster %q: want at most %d nodes, of at most %d GPUs each", group, mostNodes, mostOnNode)
		}
		if fast {
			v, err := strconv.ParseFloat(factor, 64)
			if err != nil || !(v > 0) {
				return nil, nil, bad
			}
			speed[typ] = v
		}
		more := sim.Uniform(many, gpus, typ)
		if seen[typ] { // a second group of one type needs other names
			for i := range more {
				more[i].ID += fmt.Sprintf("-%d", len(nodes))
			}
		}
		if racked {
			of, err := strconv.Atoi(rack)
			if err != nil || of < 1 {
				return nil, nil, bad
			}
			for i := range more {
				more[i].Rack = fmt.Sprintf("rack-%d", racks+i/of)
			}
			racks += (len(more) + of - 1) / of
		}
		seen[typ] = true
		nodes = append(nodes, more...)
	}
	return nodes, speed, nil
}
