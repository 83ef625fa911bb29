// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// client connects to the store as a script's init_process_group does: it counts itself.
func (r *rig) client() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+r.env("MASTER_PORT"))
	must.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	must.NoError(r.t, c.SetDeadline(time.Now().Add(time.Minute)))
	request := binary.LittleEndian.AppendUint32([]byte{0}, 0x3C85F7CE) // VALIDATE
	request = binary.LittleEndian.AppendUint64(append(request, 4), 5)  // ADD, 5 bytes of a key
	request = binary.LittleEndian.AppendUint64(append(request, "init/"...), 1)
	_, err = c.Write(request)
	must.NoError(r.t, err)
	return c
}

// answered returns the number in the answer to a client.
func answered(t *testing.T, c net.Conn) int64 {
	t.Helper()
	var n int64
	must.NoError(t, binary.Read(c, binary.LittleEndian, &n))
	return n
}

// held fails unless a client waits for an answer.
func held(t *testing.T, c net.Conn) {
	t.Helper()
	must.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	must.ErrorContains(t, err, "timeout")
	must.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
}

// place gives the process its place in a ring of its own.
func (r *rig) place(generation uint64) host.Exchange {
	r.t.Helper()
	of := ring(generation)
	of.Members = of.Members[:1]
	x, err := r.f.Join(of)
	must.NoError(r.t, err)
	r.t.Cleanup(x.Close)
	r.e.Admit(generation, elastic.Assignment{Size: 1, LocalSize: 1, CrossSize: 1})
	return x
}

func TestAScriptForTorchrunIsHeldInItsGroup(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]string{"detected": "", "configured": settings.ModeRestart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigOf(t, mode, nil)
			must.True(t, r.f.Standbys())
			first := r.client()
			r.happened("notifiable", "arrived true")
			second := r.client() // as with a group per device
			held(t, first)
			held(t, second)
			x := r.place(3)
			must.Eq(t, 3, answered(t, first)+answered(t, second), must.Sprint("1 and 2"))
			must.True(t, x.Up(0))
			must.Eq(t, 3, answered(t, r.client()), must.Sprint("one that comes later"))
			must.NoError(t, r.e.Notify(t.Context(), 1))
			r.e.Break(3)
			r.happened()
		})
	}
}

// The process may have ended by the time that it gets its place.
func TestAScriptThatGivesUpIsNotUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.e.Store(ctx)
	must.ErrorIs(t, err, context.Canceled)
	r.happened("notifiable", "arrived true")
	must.False(t, r.place(1).Up(0))
}

func TestModeDecidesTheEnvironment(t *testing.T) {
	t.Parallel()
	for mode, worker := range map[string]bool{"": true, settings.ModeInProcess: true, settings.ModeRestart: false} {
		r := newRigOf(t, mode, nil)
		must.Eq(t, worker, r.env("KOLO_WORKER_ADDR") != "")
		must.Eq(t, worker, r.env("KOLO_WORKER_SECRET") != "")
		must.Eq(t, "True", r.env("TORCHELASTIC_USE_AGENT_STORE"))
		must.Eq(t, mode != settings.ModeInProcess, r.f.Standbys())
	}
}

func TestOneThatSaysHelloTooLateIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.client()
	r.happened("notifiable", "arrived true")
	must.StrContains(t, r.connect("2.6.0")["message"].(string), "has used the store of its process group before it connected")
	r.happened("warn its process was refused by the agent")
}

// All processes of a host take part in the same mode.
func TestTheFirstProcessDecides(t *testing.T) {
	t.Parallel()
	t.Run("for replacement", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.client()
		r.happened("notifiable", "arrived true")
		other := r.another(nil)
		must.StrContains(t, other.connect("2.6.0")["message"].(string), "all must train in one way")
	})
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		must.Eq(t, "welcome", r.connect("2.6.0")["type"].(string))
		other := r.another(func(l *limits) { l.store = time.Millisecond })
		held(t, other.client())
		other.happened("does the script call torch.distributed.init_process_group itself?")
		held(t, r.client()) // after its hello that is kolo.torch's
		r.happened()
	})
}

func TestASilentScriptIsAskedFor(t *testing.T) {
	t.Parallel()
	for mode, question := range map[string]string{
		"":                   "does the script call torch.distributed.init_process_group, or a function decorated with kolo.torch.elastic?",
		settings.ModeRestart: "does the script call torch.distributed.init_process_group? Without",
	} {
		newRigOf(t, mode, func(l *limits) { l.silence = time.Millisecond }).happened(question)
	}
}

func TestWhatIsMissingIsExplained(t *testing.T) {
	t.Parallel()
	f := &Framework{}
	for line, advice := range map[string]string{
		"RuntimeError: use_libuv was requested but PyTorch was build without libuv support":                                   "python3 -m kolo.launch",
		"torch.distributed.DistStoreError: use_libuv was requested but PyTorch was built without libuv support, run with ...": "python3 -m kolo.launch",
		"python3: Error while finding module specification for 'kolo.launch' (ModuleNotFoundError: No module named 'kolo')":   "pip install ./python",
		"ModuleNotFoundError: No module named 'kolo.torch'":                                                                   "pip install ./python",
		"python3: No module named kolo.launch":                                                                                "pip install ./python",
		"ValueError: The rendezvous backend 'kolo' is not registered. Did you forget to call `register`?":                     "pip install ./python",
	} {
		must.StrContains(t, f.Explain(line), advice)
	}
	must.Eq(t, "", f.Explain("ValueError: libuv"))
}
