// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e || gpu

package device

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parseQuery reads what --query-gpu prints as CSV. Values that nvidia-smi does
// not report are left out.
func parseQuery(out string, fields []string) ([]map[string]string, error) {
	r := csv.NewReader(strings.NewReader(out))
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = len(fields)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	var gpus []map[string]string
	for _, row := range rows {
		gpu := map[string]string{}
		for i, name := range fields {
			if v := strings.TrimSpace(row[i]); known(v) {
				gpu[name] = v
			}
		}
		gpus = append(gpus, gpu)
	}
	return gpus, nil
}

// known is false for N/A, [N/A], [Not Supported], [Unknown Error] and fields that
// are deprecated.
func known(v string) bool {
	return v != "" && v != "N/A" && !strings.HasPrefix(v, "[") && !strings.Contains(v, "deprecated")
}

// links is the matrix of nvidia-smi topo -m, and the NUMA node of each GPU as
// it is written there.
type links struct {
	cells [][]string
	numa  []string
}

var underline = regexp.MustCompile("\x1b\\[[0-9;]*m")

// parseTopo reads the table. Its columns are parted by tabs; in addition to GPUs it has
// network cards.
func parseTopo(out string) (links, error) {
	var l links
	numa, gpus := -1, 0
	for line := range strings.Lines(underline.ReplaceAllString(out, "")) {
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		_, gpu := index(cells[0], "GPU")
		switch {
		case cells[0] == "" && slices.Contains(cells, "GPU0"):
			numa = slices.Index(cells, "NUMA Affinity")
			for _, c := range cells {
				if _, ok := index(c, "GPU"); ok {
					gpus++
				}
			}
		case gpu && gpus > 0:
			if len(cells) <= gpus {
				return l, fmt.Errorf("row %q has fewer than %d links", line, gpus)
			}
			l.cells = append(l.cells, cells[1:1+gpus])
			node := ""
			if numa > 0 && numa < len(cells) {
				node = cells[numa]
			}
			l.numa = append(l.numa, node)
		}
	}
	if gpus == 0 || len(l.cells) != gpus {
		return l, fmt.Errorf("%d rows for %d GPUs", len(l.cells), gpus)
	}
	return l, nil
}

// index reads the number in GPU0 and the like.
func index(s, prefix string) (int, bool) {
	digits, found := strings.CutPrefix(s, prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil
}

// ports are the NVLinks of a GPU that are up by nvidia-smi nvlink -s.
type ports struct {
	up   int
	gbps float64
}

var (
	gpuLine  = regexp.MustCompile(`^GPU \d+:.*\(UUID: (GPU-[^)]+)\)`)
	linkLine = regexp.MustCompile(`^\s+Link \d+: ([0-9.]+) GB/s`)
	migLine  = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)`)
)

// parseNVLinks reads nvidia-smi nvlink -s, by the GPUs' UUIDs.
func parseNVLinks(out string) map[string]ports {
	all, now := map[string]ports{}, ""
	for line := range strings.Lines(out) {
		if m := gpuLine.FindStringSubmatch(line); m != nil {
			now = m[1]
		} else if m := linkLine.FindStringSubmatch(line); m != nil {
			p := all[now]
			gbps, err := strconv.ParseFloat(m[1], 64)
			if err == nil {
				p.up++
				p.gbps += gbps
			}
			all[now] = p
		}
	}
	return all
}

// instance is a MIG instance in nvidia-smi -L.
type instance struct{ uuid, profile, parent string }

func parseList(out string) []instance {
	var all []instance
	now := ""
	for line := range strings.Lines(out) {
		if m := gpuLine.FindStringSubmatch(line); m != nil {
			now = m[1]
		} else if m := migLine.FindStringSubmatch(line); m != nil {
			all = append(all, instance{uuid: m[2], profile: m[1], parent: now})
		}
	}
	return all
}
