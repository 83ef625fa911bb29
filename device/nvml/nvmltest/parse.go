// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvmltest

import (
	"slices"
	"strings"
)

// Description is the content of a machine file, as the library reads it.
type Description struct {
	// Machine holds the keys that belong to no GPU, such as driver.
	Machine map[string]string
	// GPUs are the listed GPUs, in NVML's order.
	GPUs []GPU
}

// GPU is one GPU of a machine file.
type GPU struct {
	UUID string
	// Keys holds the values by key. Keys that repeat (links, mig) have several
	// values.
	Keys map[string][]string
}

// Get returns the last value of a key, "" if there is none.
func (g GPU) Get(key string) string {
	if all := g.Keys[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// Describe parses a machine file.
func Describe(text string) Description {
	d := Description{Machine: map[string]string{}}
	every := GPU{Keys: map[string][]string{}}
	now := &every
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.TrimSpace(value)
		switch {
		case key == "" || strings.HasPrefix(key, "#") || key == "event":
		case slices.Contains([]string{"driver", "cuda", "init", "hang_all", "p2p"}, key):
			d.Machine[key] = value
		case key == "every":
			now = &every
		case key == "gpu":
			g := GPU{UUID: value, Keys: map[string][]string{}}
			for k, v := range every.Keys {
				g.Keys[k] = slices.Clone(v)
			}
			d.GPUs = append(d.GPUs, g)
			now = &d.GPUs[len(d.GPUs)-1]
		case key == "again":
			now = &every
			if i := slices.IndexFunc(d.GPUs, func(g GPU) bool { return g.UUID == value }); i >= 0 {
				now = &d.GPUs[i]
			}
		default:
			now.Keys[key] = append(now.Keys[key], value)
		}
	}
	d.GPUs = slices.DeleteFunc(d.GPUs, func(g GPU) bool { return g.Get("gone") == "1" })
	return d
}
