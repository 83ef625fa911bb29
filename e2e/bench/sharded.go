// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A ShardedChange is one change of the group of a sharded model, next to a plain transfer of
// the bytes that the change moves. It is a line of python/tests/measure_shares.py.
type ShardedChange struct {
	From int `json:"from"`
	To   int `json:"to"`
	// MiB is the size of the parameters. AdamW's state is twice as large.
	MiB int `json:"mib"`
	// Gap is the time in which no rank trains, and Plain that of the transfer, in seconds.
	Gap   float64 `json:"gap"`
	Plain float64 `json:"plain"`
	// GapProcessor and PlainProcessor are the processor time of all processes meanwhile, in seconds.
	GapProcessor   float64 `json:"gap_processor"`
	PlainProcessor float64 `json:"plain_processor"`
}

// shardedTorch is PyTorch with the FSDP2 that kolo.Sharded is for. Debian's is older.
var shardedTorch = func() train.Framework {
	f := train.Torch
	f.Python = "bin/torch-newest/bin/python3"
	return f
}()

// measureSharded adds o.rounds changes of each kind, for each size of the parameters.
func measureSharded(ctx context.Context, o *options, changes *[]ShardedChange) error {
	for _, mb := range o.stateMB {
		for range o.rounds {
			cmd := exec.CommandContext(ctx, o.python(shardedTorch), "-m", "tests.measure_shares", strconv.Itoa(mb), "1")
			cmd.Dir = filepath.Join(o.root, "python")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%d MiB: %w", mb, err)
			}
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				var c ShardedChange
				if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
					return fmt.Errorf("%q: %w", lines.Text(), err)
				}
				*changes = append(*changes, c)
				progress("%d MiB, %s: gap %.2f s, plain transfer %.2f s; processor time %.2f s and %.2f s", c.MiB, change(c.From, c.To), c.Gap, c.Plain, c.GapProcessor, c.PlainProcessor)
			}
			if err := o.keep(); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeSharded writes the report's section about sharded models.
func writeSharded(w *bytes.Buffer, changes []ShardedChange, about About) {
	fmt.Fprintf(w, `## Sharded models

A planned change of a model that is sharded as by FSDP2 (`+"`kolo.Sharded`"+`), with AdamW, compared with a plain transfer of the bytes that the change moves. The same
processes make the transfer in the same run: one message per pair of processes, into new memory. The parameters are a third of the state.

- **Gap**: no rank trains, from the last step of the old group to the first line of the script in the new one. It also includes the commit of that step, and a new group.
- **Processor**: time of all processes together, so other work on the machine hardly counts. That of newcomers begins before they connect.
- After the gap, a thread copies the new part as a commit; this is not included.

Written by `+"`make bench ONLY=sharded`"+` on %s; do not edit.

- machine: %s; other work may have gone on during the measurement
- software: %s

| parameters | change | gap, s | plain transfer, s | ratio | processor, gap, s | processor, plain transfer, s |
|---|---|---|---|---|---|---|
`, about.Date, about.Machine, about.Software)
	type kind struct{ mib, from, to int }
	var kinds []kind
	by := map[kind][]ShardedChange{}
	for _, c := range changes {
		k := kind{c.MiB, c.From, c.To}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
		by[k] = append(by[k], c)
	}
	for _, k := range kinds {
		column := func(value func(ShardedChange) float64) []float64 {
			var values []float64
			for _, c := range by[k] {
				values = append(values, value(c))
			}
			return values
		}
		gap := column(func(c ShardedChange) float64 { return c.Gap })
		plain := column(func(c ShardedChange) float64 { return c.Plain })
		gapProcessor := column(func(c ShardedChange) float64 { return c.GapProcessor })
		plainProcessor := column(func(c ShardedChange) float64 { return c.PlainProcessor })
		fmt.Fprintf(w, "| %d MiB | %s | %s | %s | %s | %s | %s |\n", k.mib, change(k.from, k.to), spread(gap, 2), spread(plain, 2), ratio(gap, plain),
			spread(gapProcessor, 2), spread(plainProcessor, 2))
	}
	fmt.Fprintln(w)
}
