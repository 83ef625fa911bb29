// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// A Follower reads a record while it grows, and returns each line only once.
type Follower struct {
	dir     string
	offsets map[string]int64
}

// Follow returns a Follower from the beginning of the record in dir, which need not
// exist yet.
func Follow(dir string) *Follower {
	return &Follower{dir: dir, offsets: map[string]int64{}}
}

// Next returns the events that were recorded since the last call, in chronological
// order. An earlier call may already have returned a later event of another
// process.
func (f *Follower) Next() (Record, error) {
	paths, err := filepath.Glob(filepath.Join(f.dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var record Record
	for _, path := range paths {
		// Most files are complete: after hours there are thousands.
		if info, err := os.Stat(path); err == nil && info.Size() == f.offsets[path] {
			continue
		}
		text, err := readFrom(path, f.offsets[path])
		if err != nil {
			return nil, err
		}
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		events, err := Parse(text)
		if err != nil {
			return nil, err
		}
		f.offsets[path] += int64(len(text))
		record = append(record, events...)
	}
	slices.SortStableFunc(record, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
	return record, nil
}

func readFrom(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
