// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvmltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Machine is a machine that the stub library simulates.
type Machine struct {
	t    testing.TB
	dir  string
	base string

	mu     sync.Mutex
	global map[string]string            // init, hang_all
	gpu    map[string]map[string]string // changes, by UUID
	order  []string                     // of the UUIDs in gpu
	events []string
}

// New returns the machine with this name, or skips the test if there is no compiler
// to build the library with. A test may load the library into its own process.
func New(t testing.TB, name string, flags ...string) *Machine {
	t.Helper()
	m := describe(t, t.TempDir(), name)
	// All machines share one file, because a process cannot load two.
	if err := os.Symlink(built(t, flags), m.Library()); err != nil {
		t.Fatal(err)
	}
	return m
}

// At is like New, for tests that start other programs. It puts the library, the
// machine file and the count of calls into dir. Programs that run in dir can use
// the variables of [RelativeEnv] instead of those of [Machine.Env].
func At(t testing.TB, dir, name string, flags ...string) *Machine {
	t.Helper()
	m := describe(t, dir, name)
	m.Install(flags...)
	return m
}

// Install puts another library into the machine's folder, as an upgrade of the
// driver does. Processes keep the library that they have loaded.
func (m *Machine) Install(flags ...string) {
	m.t.Helper()
	text, err := os.ReadFile(built(m.t, flags))
	if err != nil {
		m.t.Fatal(err)
	}
	next := m.Library() + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(next, m.Library()); err != nil {
		m.t.Fatal(err)
	}
}

func built(t testing.TB, flags []string) string {
	t.Helper()
	lib, err := Build(flags...)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// RelativeEnv returns variables that make a program read the machine in the folder
// that it runs in, so that programs of several machines can share one environment.
// Only nomad-device-nvtopo finds the library through these variables, because the
// loader accepts no relative names.
func RelativeEnv() map[string]string {
	return map[string]string{
		"KOLO_NVML_LIBRARY": "./" + LibraryName,
		"KOLO_HOST_ROOT":    ".",
		"NVMLTEST_MACHINE":  machineFile,
		"NVMLTEST_CALLS":    callsFile,
	}
}

// Names in a machine's folder.
const (
	machineFile = "nvml.machine"
	callsFile   = "nvml.calls"
)

func describe(t testing.TB, dir, name string) *Machine {
	t.Helper()
	text, err := machines.ReadFile("machines/" + name + ".machine")
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{
		t: t, dir: dir, base: string(text),
		global: map[string]string{}, gpu: map[string]map[string]string{},
	}
	m.write()
	if err := writeSysfs(dir, Describe(m.base).GPUs); err != nil {
		t.Fatal(err)
	}
	return m
}

// Root returns the folder that contains the machine's sys.
func (m *Machine) Root() string { return m.dir }

// Library returns the path of the stub library.
func (m *Machine) Library() string { return filepath.Join(m.dir, LibraryName) }

// Env returns the variables that make a program load the stub, read this machine
// and count its calls, and make nomad-device-nvtopo read its sysfs.
func (m *Machine) Env() []string {
	return []string{
		"LD_LIBRARY_PATH=" + m.dir,
		"KOLO_HOST_ROOT=" + m.Root(),
		"NVMLTEST_MACHINE=" + m.file(),
		"NVMLTEST_CALLS=" + filepath.Join(m.dir, callsFile),
	}
}

// Setenv sets the variables of [Machine.Env] in this process, until the test
// ends.
func (m *Machine) Setenv() {
	m.t.Helper()
	for _, kv := range m.Env() {
		name, value, _ := strings.Cut(kv, "=")
		m.t.Setenv(name, value)
	}
}

// UUIDs returns the GPUs of the machine, in NVML's order.
func (m *Machine) UUIDs() []string {
	var ids []string
	for _, g := range Describe(m.base).GPUs {
		ids = append(ids, g.UUID)
	}
	return ids
}

// Set changes one key of a GPU.
func (m *Machine) Set(gpu int, key, value string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.UUIDs()[gpu]
	if m.gpu[id] == nil {
		m.gpu[id] = map[string]string{}
		m.order = append(m.order, id)
	}
	m.gpu[id][key] = value
	m.write()
}

// Lose makes every call on a GPU fail as if it had fallen off the bus.
func (m *Machine) Lose(gpu int) { m.t.Helper(); m.Set(gpu, "error", "15") }

// Return makes a GPU work again after Lose, Unplug or Hang.
func (m *Machine) Return(gpu int) {
	m.t.Helper()
	m.Set(gpu, "error", "0")
	m.Set(gpu, "hang", "0")
	m.Set(gpu, "gone", "0")
}

// Unplug removes a GPU from the list.
func (m *Machine) Unplug(gpu int) { m.t.Helper(); m.Set(gpu, "gone", "1") }

// Hang makes calls on a GPU hang until Return.
func (m *Machine) Hang(gpu int) { m.t.Helper(); m.Set(gpu, "hang", "1") }

// XID raises an error of the driver on a GPU.
func (m *Machine) XID(gpu int, xid uint64) { m.t.Helper(); m.event(gpu, 8, xid, -1, -1) }

// XIDOnInstance raises an error of the driver on a MIG instance.
func (m *Machine) XIDOnInstance(gpu int, xid uint64, gi, ci int) {
	m.t.Helper()
	m.event(gpu, 8, xid, gi, ci)
}

// DoubleBit raises an ECC error that cannot be corrected.
func (m *Machine) DoubleBit(gpu int) { m.t.Helper(); m.event(gpu, 2, 0, -1, -1) }

func (m *Machine) event(gpu int, kind, data uint64, gi, ci int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, fmt.Sprintf("event %d %s %d %d %d %d",
		len(m.events)+1, m.UUIDs()[gpu], kind, data, uint32(gi), uint32(ci)))
	m.write()
}

// Unload makes every call fail as if the driver were not loaded.
func (m *Machine) Unload() { m.t.Helper(); m.setGlobal("init", "9") }

// Load reverts Unload.
func (m *Machine) Load() { m.t.Helper(); m.setGlobal("init", "0") }

// Fail makes every call return this NVML code; code 0 makes calls succeed again.
func (m *Machine) Fail(code int) { m.t.Helper(); m.setGlobal("init", strconv.Itoa(code)) }

// JoinPeers lets any two GPUs reach each other's memory over PCIe.
func (m *Machine) JoinPeers() { m.t.Helper(); m.setGlobal("p2p", "all") }

// HangAll makes every call hang if on is 1, and return again if it is 0.
func (m *Machine) HangAll(on int) { m.t.Helper(); m.setGlobal("hang_all", strconv.Itoa(on)) }

func (m *Machine) setGlobal(key, value string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.global[key] = value
	m.write()
}

// Calls returns how many NVML calls programs with [Machine.Env] have made.
func (m *Machine) Calls() uint64 {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, callsFile))
	if os.IsNotExist(err) || err == nil && len(b) < 8 {
		return 0
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(b)
}

func (m *Machine) file() string { return filepath.Join(m.dir, machineFile) }

// write replaces the machine file atomically.
func (m *Machine) write() {
	m.t.Helper()
	var b strings.Builder
	b.WriteString(m.base)
	for _, id := range m.order {
		fmt.Fprintf(&b, "\nagain %s\n", id)
		for key, value := range m.gpu[id] {
			fmt.Fprintf(&b, "%s %s\n", key, value)
		}
	}
	for key, value := range m.global {
		fmt.Fprintf(&b, "%s %s\n", key, value)
	}
	for _, e := range m.events {
		fmt.Fprintln(&b, e)
	}
	next := m.file() + ".next"
	if err := os.WriteFile(next, []byte(b.String()), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(next, m.file()); err != nil {
		m.t.Fatal(err)
	}
}
