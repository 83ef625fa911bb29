// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// Variable is the environment variable of a training process that names the file into
// which the process writes its stacks. The package kolo registers Python's faulthandler for
// Signal with that file.
const Variable = "KOLO_STACKS_FILE"

// Signal asks a process for its stacks: SIGRTMAX-2. The Python package has the same number.
const Signal = unix.Signal(62)

const (
	// answerTime bounds the wait for the stacks of one process.
	answerTime = 4 * time.Second
	// settled is how long a file of stacks must stay the same to be complete.
	settled = 30 * time.Millisecond
	// youngest is the age in clock ticks from which a process is sent Signal. A process that
	// has just been forked may be about to become another program, without a handler.
	youngest = userHZ
	// starting is the age from which a process is sent Signal that is not in the ring.
	starting = 60 * userHZ
	// maxStacks bounds a file of stacks. Faulthandler writes at most 100 threads.
	maxStacks = 512 << 10
)

var (
	errNoHandler = errors.New("the process has no handler for it: its script has not imported kolo")
	errNoAnswer  = errors.New("the process has not answered the signal")
	errYoung     = errors.New("the process has just been started")
	// errOutside is about processes that may still import modules.
	errOutside = errors.New("a process outside of the ring is not sent the signal in its first minute, because its script may still be starting")
	errGone    = errors.New("the process has ended")
	errRuns    = errors.New("the process runs all the time, and the signal may crash a process that runs Python code")
	errLate    = errors.New("another process with the same file may still answer")
)

// askProcess makes a process write its stacks into its file, and returns them. A child of the
// process has inherited the handler and the file; so no two of them may be asked at once.
func askProcess(ctx context.Context, p target) ([]stacks.Thread, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// Without a handler, the signal would end the process.
	if !answers(p.pid, p.file) {
		return nil, errNoHandler
	}
	if slices.ContainsFunc(*p.late, mayAnswer) {
		return nil, errLate
	}
	f, err := openRegular(p.file, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := lock(ctx, f); err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	text, err := p.ask(ctx, f)
	if err != nil {
		return nil, err
	}
	return stacks.ParseFaulthandler(text), nil
}

// ask asks the thread of a process for its stacks, and then the process by Signal if it may.
func (p *target) ask(ctx context.Context, f *os.File) (string, error) {
	used, err := askThread(p)
	asked := err == nil
	if asked {
		if text, err := firstAnswer(ctx, f, p.pid, threadTime); err == nil {
			return text, nil
		}
	}
	for {
		switch wait := p.maySignal(asked, used); {
		case wait == nil:
			text, err := p.askBySignal(ctx, f)
			if err != nil || asked {
				*p.late = append(*p.late, late{p.process, asked})
			}
			return text, err
		case !asked && !errors.Is(wait, errRuns):
			return "", wait
		case !pause(ctx):
			if asked {
				*p.late = append(*p.late, late{p.process, true})
			}
			return "", wait
		}
		if info, err := f.Stat(); err == nil && info.Size() > 0 { // the thread answers late
			return answer(ctx, f, p.pid)
		}
	}
}

// maySignal returns nil if a process may be sent Signal now. Faulthandler reads the stacks
// without the GIL, and may crash a process that runs Python code meanwhile. So all threads
// must sleep, or native code must keep the GIL: the thread that was asked has not answered,
// although the process has used CPU time since then.
func (p *target) maySignal(asked bool, used uint64) error {
	switch {
	case !p.inRing && age(p.started) < starting:
		return errOutside
	case age(p.started) < youngest:
		return errYoung
	case asleep(p.pid):
		return nil
	}
	if now, err := readStat(p.pid); err == nil && asked && now.used >= used+keptTime {
		return nil
	}
	return errRuns
}

// askBySignal makes faulthandler write the stacks of a process.
func (p *target) askBySignal(ctx context.Context, f *os.File) (string, error) {
	// A signal that is pending since an earlier command will be handled. A second one would
	// make the process write its stacks twice.
	if !pending(p.pid) {
		if err := send(p.pid, p.started, Signal); err != nil {
			return "", err
		}
	}
	return answer(ctx, f, p.pid)
}

// late is a process that has not answered in time.
type late struct {
	process
	thread bool // that of the process's package was asked, not faulthandler
}

// mayAnswer reports whether a process that has not answered in time may still do so.
func mayAnswer(p late) bool {
	now, err := readStat(p.pid)
	return err == nil && now.started == p.started && now.state != stacks.Dead && (p.thread || handles(p.pid))
}

// lock waits until no other command asks the processes of this file.
func lock(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || !pause(ctx) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// send sends a signal to a process, and to no later process with the same ID.
func send(pid int, started uint64, signal unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errGone
	}
	defer func() { _ = unix.Close(fd) }()
	// Even if the ID is reused by now, fd still refers to the process that was opened.
	if now, err := readStat(pid); err != nil || now.started != started {
		return errGone
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil {
		return fmt.Errorf("signal the process: %w", err)
	}
	return nil
}

// answer waits until a process has written its stacks. Faulthandler writes no mark at the
// end. So an answer is complete if it has the current thread, the process runs its handler
// no longer, and the file has stayed the same. Three dots stand for threads beyond the
// hundredth.
func answer(ctx context.Context, f *os.File, pid int) (string, error) {
	var size int64
	since := time.Now()
	for {
		info, err := f.Stat()
		if err != nil {
			return "", err
		}
		if now := info.Size(); now != size {
			size, since = now, time.Now()
		}
		if size > 0 && time.Since(since) >= settled && (!handles(pid) || size >= maxStacks) {
			text, err := io.ReadAll(io.NewSectionReader(f, 0, maxStacks))
			if err != nil {
				return "", err
			}
			if whole := string(text); strings.Contains(whole, "Current thread 0x") || strings.Contains(whole, "Stack (most recent") || strings.Contains(whole, "\n...\n") {
				return whole, nil
			}
		}
		if !pause(ctx) {
			return "", errNoAnswer
		}
	}
}

// pause waits for some milliseconds. It reports whether ctx goes on.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}
