// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"encoding/json"
	"fmt"
)

// ParsePySpy returns the threads in the output of `py-spy dump --json`. The caller bounds
// its length.
func ParsePySpy(data []byte) ([]Thread, error) {
	var dump []struct {
		PID    int    `json:"pid"`
		Name   string `json:"thread_name"`
		OSID   int64  `json:"os_thread_id"`
		Frames []struct {
			Name string `json:"name"`
			File string `json:"filename"`
			Line int    `json:"line"`
		} `json:"frames"`
	}
	if err := json.Unmarshal(data, &dump); err != nil {
		return nil, fmt.Errorf("output of py-spy: %w", err)
	}
	p := Process{}
	for _, t := range dump {
		thread := Thread{Name: t.Name, Main: t.Name == "MainThread" || t.OSID != 0 && t.OSID == int64(t.PID)}
		for _, f := range t.Frames {
			thread.Frames = append(thread.Frames, Frame{Function: f.Name, File: f.File, Line: f.Line})
		}
		p.Threads = append(p.Threads, thread)
	}
	p.keepMain()
	p.bound()
	return p.Threads, nil
}
