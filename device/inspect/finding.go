// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is the result of one check of a machine's set-up.
type Finding struct {
	// Problem states that GPUs cannot be used, or not well, until this is solved.
	// Otherwise the finding is a note.
	Problem bool
	// What is the finding, and Do the remedy.
	What, Do string
	// Where holds the UUIDs of the GPUs concerned. It is empty if the finding
	// concerns the machine.
	Where []string
}

// String returns the finding as text for operators, on several lines.
func (f Finding) String() string {
	kind := "note"
	if f.Problem {
		kind = "problem"
	}
	lines := slices.Concat([]string{fmt.Sprintf("%-8s %s", kind, f.What)}, f.Where, []string{f.Do})
	return strings.Join(lines, "\n         ")
}

// findings collects findings. A finding that several GPUs share is in it once.
type findings []Finding

func (fs *findings) add(f Finding) {
	for i, old := range *fs {
		if old.Problem == f.Problem && old.What == f.What && old.Do == f.Do {
			(*fs)[i].Where = append(old.Where, f.Where...)
			return
		}
	}
	*fs = append(*fs, f)
}

func (fs *findings) problem(do, format string, args ...any) {
	fs.add(Finding{Problem: true, What: fmt.Sprintf(format, args...), Do: do})
}

func (fs *findings) note(do, format string, args ...any) {
	fs.add(Finding{What: fmt.Sprintf(format, args...), Do: do})
}
