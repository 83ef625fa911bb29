// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"time"
)

// Progress is the newest line that a script wrote to its progress file.
type Progress struct {
	Generation uint64 `json:"generation"`
	// At is when the line was written, in seconds of Unix time.
	At         float64  `json:"at"`
	Step       *float64 `json:"step,omitempty"`
	Samples    *float64 `json:"samples,omitempty"`
	Epoch      *float64 `json:"epoch,omitempty"`
	TotalSteps *float64 `json:"total_steps,omitempty"`
	Loss       *float64 `json:"loss,omitempty"`
	// First is the first line of this generation: its step, samples and time.
	First        *float64 `json:"first,omitempty"`
	FirstSamples *float64 `json:"first_samples,omitempty"`
	FirstAt      float64  `json:"first_at,omitempty"`
}

// progressFile follows a file to which a script appends JSON lines.
type progressFile struct {
	path   string
	offset int64
	rest   []byte
}

// maxLine bounds one progress line; what is longer is skipped.
const maxLine = 64 << 10

// read returns the lines that were appended since the last call, parsed. Lines
// that are not JSON objects are ignored: nothing breaks where a script reports
// nonsense.
func (p *progressFile) read() []Progress {
	f, err := os.Open(p.path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() == p.offset {
		return nil
	}
	if info.Size() < p.offset { // truncated
		p.offset, p.rest = 0, nil
	}
	data, err := io.ReadAll(io.NewSectionReader(f, p.offset, 4<<20))
	if err != nil {
		return nil
	}
	p.offset += int64(len(data))
	data = append(p.rest, data...)
	var lines []Progress
	for {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			break
		}
		data = rest
		var v struct {
			Progress
			Time *float64 `json:"time"`
		}
		if len(line) > maxLine || json.Unmarshal(line, &v) != nil {
			continue
		}
		v.Progress.Generation, v.Progress.First, v.Progress.FirstSamples, v.Progress.FirstAt = 0, nil, nil, 0
		v.Progress.At = seconds(info.ModTime())
		if v.Time != nil {
			v.Progress.At = *v.Time
		}
		lines = append(lines, v.Progress)
	}
	if len(data) > maxLine {
		data = nil
	}
	p.rest = append([]byte(nil), data...)
	return lines
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
