// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml_test

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/device/nvml"
)

func TestGuardAbandonsAHangingGPU(t *testing.T) {
	m, real := open(t, "hgx-h100")
	r := nvml.Guard(real, 300*time.Millisecond)
	all := gpus(t, r)
	m.Hang(3)
	_, err := all[3].Facts()
	must.ErrorIs(t, err, nvml.ErrHung)

	// The others answer.
	_, err = all[4].Sample(false)
	must.NoError(t, err)

	// Further calls to the same GPU do not wait, and add no call.
	before := m.Calls()
	_, err = all[3].Sample(false)
	must.ErrorIs(t, err, nvml.ErrHung)
	_, err = all[3].Facts()
	must.ErrorIs(t, err, nvml.ErrHung)
	must.Eq(t, before, m.Calls())

	// The library is not closed under the one that hangs.
	must.ErrorIs(t, r.Close(), nvml.ErrHung)
	_, err = r.Count()
	must.NoError(t, err)

	// Nor does one after the machine was read again.
	before = m.Calls()
	_, err = r.GPU(3)
	must.ErrorIs(t, err, nvml.ErrHung)
	_, err = r.Pair(all[2], all[3])
	must.ErrorIs(t, err, nvml.ErrHung)
	must.Eq(t, before, m.Calls())
	_, err = r.Pair(all[2], all[4])
	must.NoError(t, err)

	m.Return(3)
	must.Wait(t, wait.InitialSuccess(
		wait.ErrorFunc(func() error {
			_, err := all[3].Sample(false)
			return err
		}),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
}

// A sample has no time limit, but waiting for its end has one.
func TestGuardOfASampleThatHangs(t *testing.T) {
	m, real := open(t, "one-t4")
	r := nvml.Guard(real, 300*time.Millisecond)
	g := gpus(t, r)[0]
	m.Hang(0)
	back := make(chan error)
	before := m.Calls()
	go func() {
		_, err := g.Sample(false)
		back <- err
	}()
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool { return m.Calls() > before }),
		wait.Timeout(time.Minute), wait.Gap(time.Millisecond),
	))
	_, err := g.Facts()
	must.ErrorIs(t, err, nvml.ErrHung)
	m.Return(0)
	must.NoError(t, <-back)
	_, err = g.Facts()
	must.NoError(t, err)
}

func TestGuardAbandonsAHangingLibrary(t *testing.T) {
	m, real := open(t, "one-t4")
	r := nvml.Guard(real, 300*time.Millisecond)
	m.HangAll(1)
	_, err := r.Count()
	must.ErrorIs(t, err, nvml.ErrHung)
	_, err = r.Driver()
	must.ErrorIs(t, err, nvml.ErrHung)
	m.HangAll(0)
	must.Wait(t, wait.InitialSuccess(
		wait.ErrorFunc(func() error { _, err := r.Count(); return err }),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
}

// stuck is a library that hangs while it makes the handle of a GPU, or watches.
type stuck struct {
	nvml.Library
	gpu   int
	watch bool
	block chan struct{}
}

func (s stuck) GPU(i int) (nvml.GPU, error) {
	if i == s.gpu {
		<-s.block
	}
	return s.Library.GPU(i)
}

func (s stuck) Watch(gpus []nvml.GPU) (nvml.Watch, map[int]error, error) {
	if s.watch {
		<-s.block
	}
	return s.Library.Watch(gpus)
}

func TestGuardOfAHandleAndAWatchThatHang(t *testing.T) {
	_, real := open(t, "hgx-h100")
	s := stuck{Library: real, gpu: 2, watch: true, block: make(chan struct{})}
	r := nvml.Guard(s, 300*time.Millisecond)
	_, err := r.GPU(2)
	must.ErrorIs(t, err, nvml.ErrHung)
	other, err := r.GPU(3)
	must.NoError(t, err)
	_, _, err = r.Watch([]nvml.GPU{other})
	must.ErrorIs(t, err, nvml.ErrHung)

	// Everything else answers.
	_, err = r.Count()
	must.NoError(t, err)
	_, err = other.Facts()
	must.NoError(t, err)
	must.ErrorIs(t, r.Close(), nvml.ErrHung)

	close(s.block)
	must.Wait(t, wait.InitialSuccess(
		wait.ErrorFunc(r.Close), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)))
}
