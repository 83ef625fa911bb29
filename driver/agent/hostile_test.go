// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/horovod/rendezvous"
)

// A script that puts something else in the place of its progress file does not
// stop the agent, which looks at it every few milliseconds.
func TestProgressFileIsAFile(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"a pipe":           func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a device":         func(path string) error { return os.Symlink("/dev/zero", path) },
		"a link to itself": func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "progress")
			done := make(chan error, 1)
			go func() {
				p, err := newProgressFile(path)
				if err == nil {
					err = os.Remove(path)
				}
				if err == nil {
					err = replace(path)
				}
				if err == nil {
					must.SliceEmpty(t, p.read())
					_, err = newProgressFile(path) // of the slot's next process
				}
				done <- err
			}()
			select {
			case err := <-done:
				must.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("the agent hangs")
			}
		})
	}
}

// A slot that goes on sending addresses does not fill its agent's memory.
func TestDoorRemembersABoundedNumberOfAddresses(t *testing.T) {
	d := &door{}
	d.admit(&seat{})
	for block := range 200 {
		blob := make([]byte, 1000*blobEntry)
		for i := range 1000 {
			entry := blob[i*blobEntry:]
			binary.LittleEndian.PutUint16(entry, unix.AF_INET)
			binary.BigEndian.PutUint16(entry[2:], uint16(i+1))
			entry[4], entry[5] = 10, byte(block)
		}
		d.note("0", blob)
	}
	addrs, _ := d.gloo()
	must.Eq(t, maxGlooAddrs, len(addrs))
}

// FuzzBlobAddrs: of whatever a slot writes as its blob, only whole entries with
// an IP address are taken.
func FuzzBlobAddrs(f *testing.F) {
	ip4, ip6 := make([]byte, blobEntry), make([]byte, blobEntry)
	binary.LittleEndian.PutUint16(ip4, unix.AF_INET)
	binary.LittleEndian.PutUint16(ip6, unix.AF_INET6)
	for _, blob := range [][]byte{nil, ip4, ip6, append(bytes.Clone(ip4), ip6...), ip4[:blobEntry-1], bytes.Repeat([]byte{0xff}, 2*blobEntry)} {
		f.Add(blob)
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		addrs := blobAddrs(blob)
		must.LessEq(t, len(blob)/blobEntry, len(addrs))
		for _, a := range addrs {
			must.True(t, a.Addr().IsValid())
			must.False(t, a.Addr().Is4In6())
			must.Eq(t, a, netip.MustParseAddrPort(a.String()))
		}
	})
}

// FuzzProgress: whatever a script appends, in whatever pieces, the agent has
// numbers that it can count with and keeps no more than a line.
func FuzzProgress(f *testing.F) {
	f.Add([]byte(`{"step": 1, "samples": 32, "epoch": 1, "total_steps": 90, "loss": 0.5}`+"\n"), uint8(10))
	f.Add([]byte(`{"step": 1e308, "loss": NaN}`+"\n"+`{"step": -9007199254740993}`+"\n"), uint8(1))
	f.Add([]byte("null\n[]\n{}\n\n\xff\n"+`{"step": {"step": 1}}`+"\n"), uint8(3))
	f.Add(bytes.Repeat([]byte("["), 1<<12), uint8(200))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		p, err := newProgressFile(filepath.Join(t.TempDir(), "progress"))
		must.NoError(t, err)
		file, err := os.OpenFile(p.path, os.O_APPEND|os.O_WRONLY, 0)
		must.NoError(t, err)
		defer func() { _ = file.Close() }()
		s := &slot{SlotReport: elastic.SlotReport{State: elastic.InRing}}
		step := max(1, len(text)*int(piece)/256)
		for ; len(text) > 0; text = text[min(step, len(text)):] {
			_, err := file.Write(text[:min(step, len(text))])
			must.NoError(t, err)
			lines := p.read()
			must.LessEq(t, maxLine, len(p.rest))
			if len(lines) == 0 {
				continue
			}
			s.take(lines)
			s.latest.bound()
			for _, v := range []*float64{s.latest.Step, s.latest.Samples, s.latest.Epoch, s.latest.TotalSteps, s.latest.First} {
				must.True(t, v == nil || math.Abs(*v) <= maxCount)
			}
		}
	})
}

// FuzzDoor: a process that asks anything in any order gets an answer or an
// error, with a ring and without.
func FuzzDoor(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 1, 3, 0, 0, 2, 0, 0, 4, 0, 0})
	f.Add([]byte{5, 0, 0, 0, 1, 2, 4, 0, 0, 5, 0, 0, 0, 0, 0})
	scopes := []string{"global", "local_h", "cross_0", "global_process_set_hash_a", "user"}
	keys := []string{"0", "rank_0", "1", "-1", "word"}
	f.Fuzz(func(t *testing.T, program []byte) {
		d := &door{arrived: func() {}, waiting: func(uint64) {}, notifiable: func(rendezvous.NotifyTarget) {}}
		alone := rendezvous.Assignment{Size: 1, LocalSize: 1, CrossSize: 1}
		for generation := uint64(1); len(program) >= 3; program = program[3:] {
			scope, key := scopes[int(program[1])%len(scopes)], keys[int(program[2])%len(keys)]
			var err error
			switch program[0] % 6 {
			case 0:
				err = d.Put(expired(), scope, key, bytes.Repeat(program[:1], int(program[2])*blobEntry))
			case 1:
				_, _, err = d.Get(expired(), scope, key)
			case 2:
				err = d.Delete(expired(), scope, key)
			case 3:
				_, err = d.RankAndSize(expired())
			case 4:
				err = d.WorkerAddress(expired(), rendezvous.NotifyTarget{Port: 1})
			default:
				store, newErr := rendezvous.NewStore(rendezvous.Members{Slots: []rendezvous.Slot{{Host: "h", Assignment: alone}}, Local: []int{0}})
				must.NoError(t, newErr)
				d.admit(&seat{ring: RingID{Generation: generation}, assignment: elastic.Assignment(alone), store: store})
				generation++
			}
			_ = err // any error is an answer
			addrs, _ := d.gloo()
			must.LessEq(t, maxGlooAddrs, len(addrs))
		}
	})
}

// expired is a context that is over: what would wait gives up at once.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
