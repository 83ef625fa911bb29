// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// TestMain lets the test binary stand in for the driver's.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		os.Exit(Main(os.Args[2:])) //nolint:forbidigo // a process of its own
	}
	os.Exit(m.Run()) //nolint:forbidigo // this is the test's main
}

// confined runs a shell script with the given identity.
func confined(t *testing.T, id Identity, env []string, script string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", Arguments(id, []string{"sh", "-c", script})...)
	cmd.Env = append(Environment(env), "LEFT=behind")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNothingIsLeft(t *testing.T) {
	for name, id := range map[string]Identity{
		"user":               {UID: 65534, GID: 65534, Groups: []int{65534}},
		"user with groups":   {UID: 1234, GID: 100, Groups: []int{7, 100}},
		"user without group": {UID: 1234, GID: 100},
		"root":               {},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := confined(t, id, []string{"PATH=/usr/bin:/bin"}, `id -u; id -g; grep ^Groups /proc/self/status; grep -E '^(Cap|NoNewPrivs)' /proc/self/status`)
			must.NoError(t, err, must.Sprint(out))
			lines := strings.Split(strings.TrimSpace(out), "\n")
			want := Arguments(id, nil)
			must.Eq(t, want[1:3], lines[:2])
			must.Eq(t, strings.ReplaceAll(want[3], ",", " "), strings.TrimSpace(strings.TrimPrefix(lines[2], "Groups:")))
			must.Len(t, 9, lines)
			for _, line := range lines[3:8] {
				must.StrHasSuffix(t, "\t0000000000000000", line)
			}
			must.Eq(t, "NoNewPrivs:\t1", lines[8])
		})
	}
}

func TestSetuidProgramsKeepTheirRights(t *testing.T) {
	out, err := confined(t, Identity{UID: 1234, GID: 100, Groups: []int{7}, Setuid: true}, []string{"PATH=/usr/bin:/bin"}, `grep -E '^(Uid|Groups|CapEff|CapAmb|NoNewPrivs)' /proc/self/status; grep -c 'CapBnd.*00000$' /proc/self/status`)
	must.ErrorContains(t, err, "1", must.Sprint("grep found no empty bounding set"))
	must.Eq(t, "Uid:\t1234\t1234\t1234\t1234\nGroups:\t7 \nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\n0\n", out)
}

func TestAlarmEndsTheCommand(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", AlarmArguments(Identity{UID: 1234, GID: 100}, time.Nanosecond, []string{"sleep", "1000"})...)
	cmd.Env = Environment([]string{"PATH=/usr/bin:/bin"})
	var exit *exec.ExitError
	must.True(t, errors.As(cmd.Run(), &exit))
	must.Eq(t, syscall.SIGALRM, exit.Sys().(syscall.WaitStatus).Signal())
}

// TestEnvironmentIsTheJobs makes sure that variables for the loader reach the
// program, and no process before it.
func TestEnvironmentIsTheJobs(t *testing.T) {
	env := []string{"PATH=/usr/bin:/bin", "LD_PRELOAD=/none.so", "EMPTY=", "EQUALS=a=b"}
	out, err := confined(t, Identity{UID: 65534, GID: 65534}, env, `unset LD_PRELOAD; echo "$EMPTY|$EQUALS|$LEFT"`)
	must.NoError(t, err)
	must.Eq(t, 1, strings.Count(out, "/none.so"), must.Sprint("the shell alone tries to load it: "+out))
	must.StrHasSuffix(t, "|a=b|\n", out)
}

func TestRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing":      {},
		"no command":   {"1", "1", "", ""},
		"no uid":       {"", "1", "", "", "sh"},
		"negative gid": {"1", "-1", "", "", "sh"},
		"no change":    {"4294967295", "1", "", "", "sh"},
		"no group":     {"1", "1", "1,,2", "", "sh"},
		"no mark":      {"1", "1", "1", "sh", "-c"},
		"no time":      {"1", "1", "1", "alarm=0", "sh"},
		"no number":    {"1", "1", "1", "alarm=1s", "sh"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := parse(args)
			must.Error(t, err)
		})
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	out, err := exec.CommandContext(t.Context(), "/proc/self/exe", Arguments(Identity{UID: 1, GID: 1}, []string{"no-such-command"})...).CombinedOutput()
	var exit *exec.ExitError
	must.True(t, errors.As(err, &exit))
	must.Eq(t, exitFailed, exit.ExitCode())
	must.StrContains(t, string(out), "no-such-command")
}
