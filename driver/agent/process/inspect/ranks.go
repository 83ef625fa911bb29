// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Names of files in an agent's directory for progress.
const (
	ranksName = "ranks.json"
	// linkName is a link to the agent's program. A command in the allocation finds the
	// program there, under any task driver.
	linkName = "agent"
)

// Ranks lists the training processes of an allocation, for commands that run next to the
// agent.
type Ranks struct {
	// Generation and Size are those of the agent's ring, 0 without one.
	Generation uint64  `json:"generation"`
	Size       int     `json:"size"`
	Processes  []Entry `json:"processes"`
}

// Entry is a training process.
type Entry struct {
	Slot int `json:"slot"`
	// Rank is the process's rank in the ring, or stacks.NoRank.
	Rank int `json:"rank"`
	PID  int `json:"pid"`
	// Started is the process's start in clock ticks since the boot of the machine. With PID
	// it identifies the process.
	Started uint64 `json:"started"`
	Step    int64  `json:"step"`
	// Stacks is the name of the file into which the process writes its stacks.
	Stacks string `json:"stacks"`
}

// Write replaces the list in a directory.
func (r *Ranks) Write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("list of ranks: %w", err)
	}
	path := filepath.Join(dir, ranksName)
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list of ranks: %w", err)
	}
	f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("list of ranks: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("list of ranks: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("list of ranks: %w", err)
	}
	return os.Rename(next, path)
}

// maxRanksFile bounds the list in bytes.
const maxRanksFile = 256 << 10

// readRanks reads the list in a directory.
func readRanks(dir string) (Ranks, error) {
	f, err := openRegular(filepath.Join(dir, ranksName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return Ranks{}, errors.New("the agent has not started a process yet")
	}
	if err != nil {
		return Ranks{}, fmt.Errorf("list of ranks: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRanksFile))
	if err != nil {
		return Ranks{}, fmt.Errorf("list of ranks: %w", err)
	}
	var r Ranks
	if err := json.Unmarshal(text, &r); err != nil {
		return Ranks{}, fmt.Errorf("list of ranks: %w", err)
	}
	return r, nil
}

// openRegular opens a file. It follows no link and waits for no pipe.
func openRegular(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return f, nil
}

// Link makes the link to this program in a directory, and returns the path of the program.
// Without the link, `kolo stacks` finds no program to run. If dir is empty, Link does nothing
// and returns "".
func Link(dir string) (program string, err error) {
	if dir == "" {
		return "", nil
	}
	if program, err = os.Executable(); err != nil {
		return "", fmt.Errorf("link to the agent: %w", err)
	}
	path := filepath.Join(dir, linkName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return program, fmt.Errorf("link to the agent: %w", err)
	}
	return program, os.Symlink(program, path)
}
