// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
)

// Paths within the task directory.
const (
	configPath   = "secrets/kolo-agent.json"
	agentDir     = "local/kolo"
	logPath      = agentDir + "/logs"
	progressPath = agentDir + "/progress"
	eventPath    = agentDir + "/events.jsonl"
	// homePath is the home directory of users without one.
	homePath = agentDir + "/home"
	// stopPath is the file that holds the kill time once the task is being stopped.
	stopPath = agentDir + "/stop"
)

// writeAgentFiles writes the agent's configuration and identities to the task's
// secrets directory, and makes the directories that the agent writes to. inTask is
// the task directory as the task sees it.
//
// The task's user may write to these directories, and on a restart has had time to
// do so. So writeAgentFiles follows no link out of the task directory, and writes
// into no existing file.
func writeAgentFiles(pl *plan, taskDir, inTask string, who account.Account) error {
	root, err := os.OpenRoot(taskDir)
	if err != nil {
		return fmt.Errorf("task directory: %w", err)
	}
	defer func() { _ = root.Close() }()

	a := &pl.agent
	a.LogDir = filepath.Join(inTask, logPath)
	a.ProgressDir = filepath.Join(inTask, progressPath)
	a.EventFile = filepath.Join(inTask, eventPath)
	a.StopFile = filepath.Join(inTask, stopPath)
	for _, dir := range []string{agentDir, logPath, progressPath, homePath} {
		mode := fs.FileMode(0o755)
		if dir == homePath {
			mode = 0o700
		}
		if err := root.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make %s in the task directory: %w", dir, err)
		}
		if err := root.Lchown(dir, who.UID, who.GID); err != nil {
			return fmt.Errorf("change the owner of %s to the task's user: %w", dir, err)
		}
	}
	// It remains from an earlier run of the same task that was stopped.
	if err := root.Remove(stopPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the files of the task's earlier run: %w", err)
	}
	if err := writeOwned(root, eventPath, nil, 0o644, who); err != nil {
		return err
	}
	for name, token := range pl.tokens {
		if err := writeOwned(root, filepath.Join("secrets", name), []byte(token), 0o600, who); err != nil {
			return err
		}
	}
	config, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the agent's configuration: %w", err)
	}
	return writeOwned(root, configPath, append(config, '\n'), 0o600, who)
}

// writeOwned makes a new file that belongs to who, replacing any other.
func writeOwned(root *os.Root, path string, data []byte, mode fs.FileMode, who account.Account) error {
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s in the task directory: %w", path, err)
	}
	f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write %s in the task directory: %w", path, err)
	}
	defer f.Close()
	if err := f.Chown(who.UID, who.GID); err != nil {
		return fmt.Errorf("change the owner of %s to the task's user: %w", path, err)
	}
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %s in the task directory: %w", path, err)
	}
	return f.Close()
}

// writeStopNote writes down, for the agent, when it will be killed. Nomad reveals
// that only when it stops the task, and it may be sooner than the job's
// kill_timeout.
func writeStopNote(taskDir string, kill time.Time) error {
	root, err := os.OpenRoot(taskDir)
	if err != nil {
		return fmt.Errorf("task directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	self := account.Account{UID: os.Geteuid(), GID: os.Getegid()}
	return writeOwned(root, stopPath, []byte(kill.Format(time.RFC3339Nano)+"\n"), 0o644, self)
}
