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

// exitFailed is the exit status when the program could not be started, as a
// shell's when a command cannot be run.
const exitFailed = 126

// envPrefix marks the variables of the job's environment.
const envPrefix = "KOLO_TASK_ENV_"

// init keeps Main on the process's first thread: privileges and the parent death
// signal belong to a thread, and the one that gives them up becomes the program.
func init() {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		runtime.LockOSThread()
	}
}

// Capabilities are those that Main needs, in Nomad's notation: to set the
// groups, the user where the executor starts a process as user 0, and to empty
// the bounding set.
func Capabilities() []string { return []string{"CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"} }

// Identity is what a process runs as.
type Identity struct {
	UID, GID int
	// Groups are the supplementary groups.
	Groups []int
	// Setuid leaves setuid programs, and programs with capabilities of their own,
	// their rights: outside of containers the host decides about them.
	Setuid bool
}

// setuidMark stands in the arguments for Identity.Setuid, and alarmMark before the
// number of milliseconds that AlarmArguments gives.
const (
	setuidMark = "setuid"
	alarmMark  = "alarm="
)

// Arguments returns the arguments of the driver's binary that run argv with the
// given identity.
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

// AlarmArguments are Arguments for a command in a container that SIGALRM ends when
// it has run for so long. The timer is a process's own, so that it works without
// anyone who waits for it, but it is not inherited by what the command starts.
func AlarmArguments(id Identity, after time.Duration, argv []string) []string {
	args := Arguments(id, argv)
	args[4] = alarmMark + strconv.FormatInt(max(after.Milliseconds(), 1), 10)
	return args
}

// Environment returns env in the form in which it passes through Main.
func Environment(env []string) []string {
	marked := make([]string, 0, len(env))
	for _, v := range env {
		marked = append(marked, envPrefix+v)
	}
	return marked
}

// Main runs the command that Arguments made of its arguments in place of this
// process. It returns, with an exit status, only when that fails.
func Main(args []string) int {
	_, _ = fmt.Fprintf(os.Stderr, "kolo: cannot start a process of the task: %v\n", run(args))
	return exitFailed
}

// run returns an error, or not at all.
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
// The alarm is 0 where there is to be none.
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

// parseID refuses what the kernel takes for "leave it as it is".
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

// unmark returns the job's environment, and nothing else of this process's.
func unmark(env []string) []string {
	var own []string
	for _, v := range env {
		if v, ok := strings.CutPrefix(v, envPrefix); ok {
			own = append(own, v)
		}
	}
	return own
}

// lookPath finds a command as the executor would, in the PATH of env.
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
