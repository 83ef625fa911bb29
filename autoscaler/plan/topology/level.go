// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Source states where the value of a level comes from.
type Source int

// LongestValue is the largest length of a level's value in bytes. A longer value counts as
// missing.
const LongestValue = 256

// Sources of values.
const (
	Meta   Source = iota // the node's metadata: meta.KEY
	Attr                 // its attributes: attr.KEY
	Fact                 // properties that every node has: node.datacenter, node.class
	Self                 // the node itself: node
	Device               // attributes of its device groups: device.KEY
)

// Level is one level of a topology.
type Level struct {
	Name   string // as configured: meta.rack
	Source Source
	Key    string // rack; "" for Self
}

// Target returns the expression for the level's value in a constraint of a jobspec, such as
// ${meta.rack}. It is "" if constraints cannot refer to the level.
func (l Level) Target() string {
	switch l.Source {
	case Meta, Attr, Fact:
		return "${" + l.Name + "}"
	case Self:
		return "${node.unique.name}"
	case Device:
	}
	return ""
}

// NodeLevel is the name of the level whose domains are the nodes.
const NodeLevel = "node"

// Bounds of the levels in a configuration.
const (
	MaxLevels = 8
	maxKey    = 128
)

// facts and devices are the keys that may follow node. and device.
var (
	facts   = []string{"class", "datacenter"}
	devices = []string{"island", "numa_node", "pcie_root", "pcie_switch"}
)

// LevelError reports a level that cannot be used.
type LevelError struct {
	Entry int // index in the list of levels
	What  string
}

// Error returns the problem and its remedy.
func (e *LevelError) Error() string { return e.What }

// ParseLevels parses the names of levels, outermost first. If the level node is missing, it
// is added outside the levels of devices and inside all others, because a worker's node is
// always known. The error is a *LevelError.
func ParseLevels(names []string) ([]Level, error) {
	if len(names) > MaxLevels {
		return nil, &LevelError{MaxLevels, fmt.Sprintf("%d levels are more than %d; leave out those that cost nothing to cross.", len(names), MaxLevels)}
	}
	var out []Level
	for i, name := range names {
		level, complaint := parse(name)
		if complaint == "" {
			complaint = misplaced(names[:i], out, level)
		}
		if complaint != "" {
			return nil, &LevelError{i, complaint}
		}
		out = append(out, level)
	}
	if !slices.ContainsFunc(out, isSelf) {
		inside := slices.IndexFunc(out, func(l Level) bool { return l.Source == Device })
		if inside < 0 {
			inside = len(out)
		}
		out = slices.Insert(out, inside, Level{Name: NodeLevel, Source: Self})
	}
	return out, nil
}

// ParseLevel parses the name of one level.
func ParseLevel(name string) (Level, error) {
	l, complaint := parse(name)
	if complaint != "" {
		return Level{}, &LevelError{0, complaint}
	}
	return l, nil
}

// Default returns the levels of a pool that configures none.
func Default() []Level { return []Level{{Name: NodeLevel, Source: Self}} }

func isSelf(l Level) bool { return l.Source == Self }

func parse(name string) (level Level, complaint string) {
	if name == NodeLevel {
		return Level{Name: name, Source: Self}, ""
	}
	prefix, key, _ := strings.Cut(name, ".")
	l := Level{Name: name, Key: key}
	switch prefix {
	case "meta":
		l.Source = Meta
	case "attr":
		l.Source = Attr
	case "node":
		l.Source = Fact
	case "device":
		l.Source = Device
	default:
		return l, fmt.Sprintf("Level %q is not known; write node, or one that begins with meta., attr., node. or device., such as meta.rack.", name)
	}
	known := map[Source][]string{Fact: facts, Device: devices}[l.Source]
	switch {
	case known != nil && !slices.Contains(known, key):
		return l, fmt.Sprintf("Level %q is not known; after %s. write one of %s.", name, prefix, strings.Join(known, ", "))
	case !usable(key):
		return l, fmt.Sprintf("Level %q has no usable key; after %s. write the key as Nomad has it, in letters, digits, and _ . -, at most %d.", name, prefix, maxKey)
	}
	return l, ""
}

// usable reports whether a key may stand in a jobspec as ${meta.key}.
func usable(key string) bool {
	return key != "" && len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
	})
}

// misplaced returns a complaint about a level that cannot be inside those before it, or "".
func misplaced(names []string, before []Level, l Level) string {
	if slices.Contains(names, l.Name) {
		return fmt.Sprintf("Level %q is listed twice, and a level cannot be inside itself; keep one of the two.", l.Name)
	}
	for _, outer := range before {
		switch {
		case outer.Source == Device && l.Source == Device:
			return fmt.Sprintf("Level %q is inside %q, but a node is divided in one way only; keep that of group_by of the device plugin.", l.Name, outer.Name)
		case outer.Source == Device, outer.Source == Self && l.Source != Device:
			return fmt.Sprintf("Level %q is inside %q, but %s; write levels outermost first.", l.Name, outer.Name, holds(l))
		}
	}
	return ""
}

func holds(l Level) string {
	if l.Source == Self {
		return "a device is inside a node"
	}
	return "all of a node has one value of it"
}
