// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Subcommand is the driver's subcommand that calls Main.
const Subcommand = "confine"

// exitFailed is the exit status if the program could not be started. A shell uses
// the same for a command that it cannot run.
const exitFailed = 126

// envPrefix marks the variables that belong to the job's environment.
const envPrefix = "KOLO_TASK_ENV_"

// init keeps Main on the process's first thread. Privileges and the parent death
// signal belong to a thread, and the thread that drops the privileges becomes the
// program.
func init() {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		runtime.LockOSThread()
	}
}

// Capabilities returns the capabilities that Main needs, in Nomad's notation. Main needs
// them to set the process's groups, to empty its bounding set and, if the executor starts
// the process as user 0, to set its user.
func Capabilities() []string { return []string{"CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"} }

// Identity is the user, the groups and the rights with which a process runs.
type Identity struct {
	UID, GID int
	// Groups are the supplementary groups.
	Groups []int
	// Setuid lets setuid programs, and programs with file capabilities, keep their
	// rights: outside of containers the host decides about them.
	Setuid bool
}

// setuidMark stands in the arguments for Identity.Setuid. alarmMark precedes
// AlarmArguments' number of milliseconds.
const (
	setuidMark = "setuid"
	alarmMark  = "alarm="
)

// Arguments returns the arguments with which the driver's binary runs argv under
// the given identity.
func Arguments(id Identity, argv []string) []string {
	groups := make([]string, 0, len(id.Groups))
	for _, g := range id.Groups {
		groups = append(groups, strconv.Itoa(g))
	}
	mark := ""
	if id.Setuid {
		mark = setuidMark
	}
	return append([]string{Subcommand, strconv.Itoa(id.UID), strconv.Itoa(id.GID), strings.Join(groups, ","), mark}, argv...)
}

// AlarmArguments returns Arguments for a command that runs in a container and that SIGALRM
// ends after the given time. The timer is the command's own, so it needs no supervisor,
// but its child processes do not inherit it.
func AlarmArguments(id Identity, after time.Duration, argv []string) []string {
	args := Arguments(id, argv)
	args[4] = alarmMark + strconv.FormatInt(max(after.Milliseconds(), 1), 10)
	return args
}

// Environment returns env in the form that passes through Main.
func Environment(env []string) []string {
	marked := make([]string, 0, len(env))
	for _, v := range env {
		marked = append(marked, envPrefix+v)
	}
	return marked
}

// Main replaces this process with the command that Arguments encoded in args. It
// returns only on failure, with an exit status.
func Main(args []string) int {
	_, _ = fmt.Fprintf(os.Stderr, "kolo: cannot start a process of the task: %v\n", run(args))
	return exitFailed
}

// run returns only on failure.
func run(args []string) error {
	id, alarm, argv, err := parse(args)
	if err != nil {
		return err
	}
	if err := drop(id); err != nil {
		return err
	}
	env := unmark(os.Environ())
	path, err := lookPath(argv[0], env)
	if err != nil {
		return err
	}
	if err := setAlarm(alarm); err != nil {
		return fmt.Errorf("set the alarm: %w", err)
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, env))
}

// parse is the inverse of Arguments and AlarmArguments, without the subcommand.
// alarm is 0 if there is none.
func parse(args []string) (id Identity, alarm time.Duration, argv []string, err error) {
	if len(args) < 5 {
		return Identity{}, 0, nil, fmt.Errorf("%s: expected uid, gid, groups, a mark and a command, got %q", Subcommand, args)
	}
	if id.UID, err = parseID(args[0]); err != nil {
		return Identity{}, 0, nil, fmt.Errorf("uid: %w", err)
	}
	if id.GID, err = parseID(args[1]); err != nil {
		return Identity{}, 0, nil, fmt.Errorf("gid: %w", err)
	}
	if args[2] != "" {
		for group := range strings.SplitSeq(args[2], ",") {
			gid, err := parseID(group)
			if err != nil {
				return Identity{}, 0, nil, fmt.Errorf("groups: %w", err)
			}
			id.Groups = append(id.Groups, gid)
		}
	}
	if id.Setuid, alarm, err = parseMark(args[3]); err != nil {
		return Identity{}, 0, nil, err
	}
	return id, alarm, args[4:], nil
}

func parseMark(mark string) (setuid bool, alarm time.Duration, err error) {
	if mark == "" || mark == setuidMark {
		return mark == setuidMark, 0, nil
	}
	text, isAlarm := strings.CutPrefix(mark, alarmMark)
	ms, err := strconv.ParseUint(text, 10, 32)
	if !isAlarm || err != nil || ms == 0 {
		return false, 0, fmt.Errorf("mark %q: expected %q, %q with milliseconds, or nothing", mark, setuidMark, alarmMark)
	}
	return false, time.Duration(ms) * time.Millisecond, nil
}

// parseID refuses the numbers that the kernel reads as "leave the ID unchanged".
func parseID(s string) (int, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, err
	}
	if id == 1<<32-1 {
		return 0, fmt.Errorf("%d is not an id", id)
	}
	return int(id), nil
}

// unmark returns the job's environment, without any other variable of this process.
func unmark(env []string) []string {
	var own []string
	for _, v := range env {
		if v, ok := strings.CutPrefix(v, envPrefix); ok {
			own = append(own, v)
		}
	}
	return own
}

// lookPath finds a command in the PATH of env, as the executor would.
func lookPath(command string, env []string) (string, error) {
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			if err := os.Setenv("PATH", path); err != nil {
				return "", err
			}
		}
	}
	return exec.LookPath(command)
}
