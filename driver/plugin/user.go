// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/client/lib/idset"
	"github.com/hashicorp/nomad/drivers/shared/validators"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
)

// defaultUser runs isolated tasks without a user: the job names none, and the client
// assigns none of its own (account.Account.Dynamic).
const defaultUser = "nobody"

// userName is the file in a task's state directory that records its dynamic user. Nomad
// names that user at a task's first start, but no longer after the job was scaled or the
// client was restarted.
const userName = "user"

// deniedIDs are the users and groups that no task may run as.
type deniedIDs struct{ uids, gids *idset.Set[uint64] }

func parseDenied(config *Config, logger hclog.Logger) (*deniedIDs, error) {
	if _, err := validators.NewValidator(logger, config.DeniedHostUids, config.DeniedHostGids); err != nil {
		return nil, err
	}
	return &deniedIDs{idset.Parse[uint64](config.DeniedHostUids), idset.Parse[uint64](config.DeniedHostGids)}, nil
}

// check compares numbers, because dynamic users are in no user database.
func (d *deniedIDs) check(who account.Account) error {
	if d.uids.Contains(uint64(who.UID)) { //nolint:gosec // ids are not negative
		return fmt.Errorf("user = %q: running as uid %d is disallowed on this client", who.Name, who.UID)
	}
	for _, gid := range append([]int{who.GID}, who.Groups...) {
		if d.gids.Contains(uint64(gid)) { //nolint:gosec // ids are not negative
			return fmt.Errorf("user = %q: running as gid %d is disallowed on this client", who.Name, gid)
		}
	}
	return nil
}

// taskAccount decides which user a task runs as, and refuses forbidden users.
func taskAccount(c *drivers.TaskConfig, isolated bool, config *Config, denied *deniedIDs) (account.Account, error) {
	who, err := findAccount(c, isolated)
	if err != nil {
		return account.Account{}, err
	}
	if c.User != "" {
		c.User = who.Name // Nomad's executor does not accept numbers
	}
	if isolated && !config.AllowRoot {
		if err := who.CheckRoot("set allow_root = true in the config of " + config.block); err != nil {
			return account.Account{}, err
		}
	}
	if err := denied.check(who); err != nil {
		return account.Account{}, err
	}
	return who, checkOwn(who)
}

// findAccount looks up the task's user. For a task without one, it sets the default.
func findAccount(c *drivers.TaskConfig, isolated bool) (account.Account, error) {
	if !isolated {
		// Nomad does not know that such a task runs as the client's user.
		if who, err := account.Lookup(c.User); err != nil || !who.Dynamic {
			return who, err
		}
		c.User = ""
		return account.Lookup(c.User)
	}
	if c.User == "" {
		noted, err := os.ReadFile(filepath.Join(privateDirsOf(c).State, userName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return account.Account{}, fmt.Errorf("the user that the task had before: %w", err)
		}
		if c.User = string(noted); c.User == "" {
			c.User = defaultUser
		}
	}
	return account.Lookup(c.User)
}

// endTime is how long the processes of a task's earlier run may take to disappear. Their
// agent is killed if its executor is lost, and GPU memory is freed slowly.
const endTime = 10 * time.Second

// checkOwn refuses a dynamic user whose processes run and do not end. Nomad gives such a
// user to one task, but a job can name the user of another task.
func checkOwn(who account.Account) error {
	if !who.Dynamic {
		return nil
	}
	for end := time.Now().Add(endTime); ; time.Sleep(50 * time.Millisecond) {
		pid, err := who.Process()
		switch {
		case err != nil:
			return fmt.Errorf("user = %q: check whether another task uses it: %w", who.Name, err)
		case pid == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("user = %q: is in use by another task (process %d); leave user out, and Nomad gives the task one of its own", who.Name, pid)
		}
	}
}

// noteUser records a dynamic user for the task's later starts.
func (e *environment) noteUser() error {
	if !e.who.Dynamic {
		return nil
	}
	if _, err := e.dirs.Write(userName, []byte(e.who.Name)); err != nil {
		return fmt.Errorf("record the task's user: %w", err)
	}
	return nil
}

// personal returns the task's environment with the variables that name its user and home.
// inTask is the task directory as the task sees it.
func (e *environment) personal(inTask string) map[string]string {
	env := maps.Clone(e.task.Env)
	if !e.isolated() && e.task.User == "" {
		return env // as in the client
	}
	env["USER"], env["LOGNAME"] = e.who.Name, e.who.Name
	// Nomad merges the client's variables with those of the job and does not mark them.
	if home := env["HOME"]; home == "" || home == os.Getenv("HOME") {
		env["HOME"] = e.home(inTask)
	}
	return env
}

// home returns the user's own home if the task sees it and may write there, as in a volume
// or without isolation. Otherwise it returns a directory of the task.
func (e *environment) home(inTask string) string {
	v := isolation.HostView(e.task.TaskDir().Dir)
	if e.isolated() {
		v = isolation.Layout{TaskDir: e.task.TaskDir().Dir, AllocDir: e.task.AllocDir, BindPaths: e.config.BindPaths, Volumes: e.task.Mounts}.View()
	}
	if at, _ := v.Locate(e.who.Home); e.who.Home != "" && e.who.Home != "/" && e.who.Writable(at) == nil {
		return e.who.Home
	}
	return filepath.Join(inTask, homePath)
}
