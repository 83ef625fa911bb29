// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// progressFile follows a file to which a script appends JSON lines.
type progressFile struct {
	path   string
	offset int64
	rest   []byte
	step   time.Time // time of the last step that the step file showed
}

// newProgressFile creates an empty file for the slot's next process. It removes anything
// that the previous process left at that path, which may not be a file.
func newProgressFile(path string) (progressFile, error) {
	p := progressFile{path: path}
	for _, old := range []string{path, p.stepFile(), p.stacksFile()} {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return progressFile{}, fmt.Errorf("progress file: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return progressFile{}, fmt.Errorf("progress file: %w", err)
	}
	return p, f.Close()
}

// stepFile returns the path of a file that shows steps of scripts without progress lines.
// The script, or its launcher, touches the file after each step.
func (p *progressFile) stepFile() string { return p.path + ".step" }

// stacksFile returns the path of the file into which the process writes its stacks if it is
// asked for them; see package inspect.
func (p *progressFile) stacksFile() string { return p.path + ".stacks" }

// stepped returns the time at which the step file was touched, 0 if it was not touched
// since the last call.
func (p *progressFile) stepped() float64 {
	info, err := os.Lstat(p.stepFile())
	if err != nil || !info.Mode().IsRegular() || !info.ModTime().After(p.step) {
		return 0
	}
	p.step = info.ModTime()
	return wire.Seconds(p.step)
}

// maxLine bounds one progress line; longer ones are skipped.
const maxLine = 64 << 10

// read returns the lines that were appended since the last call, parsed. It ignores lines
// that are not JSON objects and fields that are not numbers, so that invalid output of a
// script does no harm.
func (p *progressFile) read() []wire.Progress {
	// The script may have put a pipe there; don't wait for it.
	f, err := os.OpenFile(p.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == p.offset {
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
	var lines []wire.Progress
	for {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			break
		}
		data = rest
		if len(line) > maxLine {
			continue
		}
		if v, ok := wire.ParseProgress(line); ok {
			v.At = wire.Seconds(info.ModTime())
			lines = append(lines, v)
		}
	}
	if len(data) > maxLine {
		data = nil
	}
	p.rest = append([]byte(nil), data...)
	return lines
}
