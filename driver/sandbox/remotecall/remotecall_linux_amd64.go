// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package remotecall

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopWithin is how long a thread may take to stop. A thread that waits for a disk takes
// longer, and is then given up.
const stopWithin = time.Second

// noProcess is larger than any process number that the kernel assigns.
const noProcess = 1<<31 - 1

// Possible returns an error if the kernel denies ptrace(2) altogether, as a seccomp profile
// may.
func Possible() error {
	if err := unix.PtraceSeize(noProcess); !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ptrace: %w", err)
	}
	return nil
}

// Shutdown shuts down sockets of a process, given by the process's descriptors, and returns
// how many it has shut down. The process must be a descendant of this one, with the same
// user.
func Shutdown(pid int, fds []int) (n int, err error) {
	// The kernel accepts a tracer's requests from one thread only.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := &tracee{pid: pid}
	if err := t.halt(); err != nil {
		return 0, err
	}
	for _, fd := range fds {
		result, callErr := t.call(unix.SYS_SHUTDOWN, uint64(fd), unix.SHUT_RDWR)
		if callErr != nil {
			err = callErr
			break
		}
		if result == 0 {
			n++
		}
	}
	return n, errors.Join(err, t.release())
}

// tracee is a thread that this process has stopped.
type tracee struct {
	pid int
	// saved holds its registers; instruction is where it may make a system call.
	saved       unix.PtraceRegs
	instruction uint64
	// later holds signals that the thread gets when it resumes.
	later []unix.Signal
}

// halt stops the thread.
func (t *tracee) halt() error {
	if err := unix.PtraceSeize(t.pid); err != nil {
		return fmt.Errorf("ptrace: %w", err)
	}
	err := unix.PtraceInterrupt(t.pid)
	if err == nil {
		err = t.await(interrupted)
	}
	if err == nil {
		err = unix.PtraceSetOptions(t.pid, unix.PTRACE_O_TRACESYSGOOD)
	}
	if err == nil {
		err = unix.PtraceGetRegs(t.pid, &t.saved)
	}
	if err == nil {
		t.instruction, err = findSyscall(t.pid)
	}
	if err != nil {
		return fmt.Errorf("stop process %d: %w", t.pid, errors.Join(err, t.detach()))
	}
	return nil
}

// call makes the thread execute a system call with two arguments.
func (t *tracee) call(number, first, second uint64) (result int64, err error) {
	regs := t.saved
	regs.Rip, regs.Rax, regs.Rdi, regs.Rsi = t.instruction, number, first, second
	// Otherwise the kernel would take this for the system call that it has interrupted.
	regs.Orig_rax = ^uint64(0)
	if err := unix.PtraceSetRegs(t.pid, &regs); err != nil {
		return 0, err
	}
	for range 2 { // its entry and its exit
		if err := unix.PtraceSyscall(t.pid, 0); err != nil {
			return 0, err
		}
		if err := t.await(inSyscall); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(t.pid, &regs); err != nil {
		return 0, err
	}
	return int64(regs.Rax), nil
}

// release resumes the thread where it was stopped.
func (t *tracee) release() error {
	err := unix.PtraceSetRegs(t.pid, &t.saved)
	if err == nil {
		err = unix.PtraceInterrupt(t.pid)
	}
	if err == nil {
		err = unix.PtraceCont(t.pid, 0)
	}
	if err == nil {
		err = t.await(interrupted)
	}
	return errors.Join(err, t.detach())
}

func (t *tracee) detach() error {
	err := unix.PtraceDetach(t.pid)
	for _, s := range t.later {
		err = errors.Join(err, unix.Tgkill(t.pid, t.pid, s))
	}
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d has ended: %w", t.pid, err)
	}
	return err
}

// A stop describes how a thread has stopped: a signal, with an event of ptrace(2) in the
// bits above it.
type stop int32

const (
	// interrupted is the event that PTRACE_INTERRUPT causes. A thread of a process that a
	// signal has stopped reports it, too.
	interrupted = stop(unix.PTRACE_EVENT_STOP << 8)
	// inSyscall is the entry or the exit of a system call, with PTRACE_O_TRACESYSGOOD.
	inSyscall = stop(unix.SIGTRAP | 0x80)
)

// is reports whether a stop is one of the kinds above.
func (s stop) is(kind stop) bool {
	if kind == interrupted {
		return s&^0xff == interrupted
	}
	return s == kind
}

// await waits until the thread stops in the expected way. Any other stop is due to a
// signal.
func (t *tracee) await(kind stop) error {
	resume := unix.PtraceCont
	if kind == inSyscall {
		resume = unix.PtraceSyscall
	}
	for end := time.Now().Add(stopWithin); ; {
		s, err := t.look()
		switch {
		case err != nil:
			return err
		case s.is(kind):
			return nil
		case s != 0:
			t.later = append(t.later, unix.Signal(s&0x7f))
			if err := resume(t.pid, 0); err != nil {
				return err
			}
		case time.Now().After(end):
			return fmt.Errorf("not stopped within %s", stopWithin)
		default:
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// look returns how the thread has stopped since the last call, 0 if it has not. It does not
// reap the process, whose parent waits for its end.
func (t *tracee) look() (stop, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, t.pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WALL, nil)
	if err != nil || info.Signo == 0 {
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		return 0, err
	}
	// Package unix has no name for the field that waitid(2) calls si_status.
	return (*childInfo)(unsafe.Pointer(&info)).status, nil
}

// childInfo is siginfo_t of a child process, as on every 64-bit Linux.
type childInfo struct {
	_      [4]int32 // si_signo, si_errno, si_code, padding
	_      [2]int32 // si_pid, si_uid
	status stop
}

// findSyscall returns the address of an instruction that makes a system call. The vDSO,
// which the kernel maps into every process, has some.
func findSyscall(pid int) (uint64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		begin, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return 0, err
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			return 0, err
		}
		return findIn(pid, begin, end)
	}
	return 0, errors.New("has no vDSO")
}

// maxVDSO is larger than any vDSO, in bytes.
const maxVDSO = 64 << 10

func findIn(pid int, begin, end uint64) (uint64, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = mem.Close() }()
	code := make([]byte, min(end-begin, maxVDSO))
	if _, err := mem.ReadAt(code, int64(begin)); err != nil {
		return 0, err
	}
	at := bytes.Index(code, []byte{0x0f, 0x05})
	if at < 0 {
		return 0, errors.New("its vDSO makes no system calls")
	}
	return begin + uint64(at), nil
}
