// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
	"github.com/kolo-nomad/kolo/device/topology"
)

// open loads the stub library into the test itself, in the same way as the real
// one.
func open(t *testing.T, machine string, flags ...string) (*nvmltest.Machine, *nvml.Real) {
	t.Helper()
	m := nvmltest.New(t, machine, flags...)
	m.Setenv()
	r := nvml.New(nvml.Options{Library: m.Library(), Root: t.TempDir()})
	must.NoError(t, r.Open())
	t.Cleanup(func() { _ = r.Close() })
	return m, r
}

func gpus(t *testing.T, r nvml.Library) []nvml.GPU {
	t.Helper()
	n, err := r.Count()
	must.NoError(t, err)
	all := make([]nvml.GPU, n)
	for i := range all {
		all[i], err = r.GPU(i)
		must.NoError(t, err)
	}
	return all
}

func facts(t *testing.T, g nvml.GPU) nvml.Facts {
	t.Helper()
	f, err := g.Facts()
	must.NoError(t, err)
	return f
}

func ptr[T any](v T) *T { return &v }

func TestFactsOfH100(t *testing.T) {
	m, r := open(t, "hgx-h100")
	d, err := r.Driver()
	must.NoError(t, err)
	must.Eq(t, nvml.Driver{Version: "550.54.15", CUDA: 12.4}, d)

	all := gpus(t, r)
	must.Len(t, 8, all)
	f := facts(t, all[5])
	must.Len(t, 18, f.Ports)
	must.True(t, f.Ports[17].Switch)
	must.Eq(t, 26562, f.Ports[17].MBps)
	f.Ports = nil
	must.Eq(t, nvml.Facts{
		UUID:           m.UUIDs()[5],
		Name:           "NVIDIA H100 80GB HBM3",
		Bus:            "0000:c3:00.0",
		Minor:          ptr(5),
		MemoryMiB:      ptr(uint64(81559)),
		BAR1MiB:        ptr(uint64(131072)),
		PowerLimitW:    ptr(uint(700)),
		CoreClockMHz:   ptr(uint(1980)),
		MemoryClockMHz: ptr(uint(2619)),
		Display:        ptr(false),
		Persistence:    ptr(true),
		ECC:            ptr(true),
		PCIeGen:        5,
		PCIeWidth:      16,
		Architecture:   "hopper",
		Compute:        9.0,
		NVLinkVersion:  4.0,
		Fabric:         &nvml.Fabric{Ready: true},
		NUMA:           1,
	}, f)
}

// The machines are the same as in the tests of package topology, but read through
// the library.
func TestMatrixOfMachines(t *testing.T) {
	for name, want := range map[string]string{
		"hgx-h100": "8;28xNV18s",
		"dgx-1v": "8;2xNV1,2xNV2,3xSYS,NV2,NV1,SYS,NV2,2xSYS,NV2,2xSYS," +
			"NV1,4xSYS,3xNV1,2xNV2,NV1,NV2",
		"two-boards-a100": "8;3xNV4,4xSYS,2xNV4,4xSYS,NV4,8xSYS,6xNV4",
		"pcie-l40s":       "8;PIX,2xPHB,4xSYS,2xPHB,4xSYS,PIX,8xSYS,PIX,4xPHB,PIX",
		"nvl72-tray":      "4;6xNV18s",
		"one-t4":          "1;",
		"none":            "0;",
	} {
		t.Run(name, func(t *testing.T) {
			_, r := open(t, name)
			all := gpus(t, r)
			nodes := make([]topology.GPU, len(all))
			for i, g := range all {
				f := facts(t, g)
				nodes[i] = topology.GPU{Bus: f.Bus, Ports: f.Ports}
			}
			matrix := topology.New(nodes, func(i, j int) topology.Pair {
				p, err := r.Pair(all[i], all[j])
				must.NoError(t, err)
				return p
			})
			must.Eq(t, want, matrix.Encode())
		})
	}
}

func TestFactsOfMIG(t *testing.T) {
	_, r := open(t, "mig-a100")
	all := gpus(t, r)
	f := facts(t, all[0])
	must.True(t, f.MIG)
	must.Len(t, 7, f.Instances)
	must.Eq(t, nvml.Instance{
		UUID:      "MIG-f4000000-0000-5000-8000-000000000003",
		Name:      "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
		Profile:   "1g.5gb",
		MemoryMiB: ptr(uint64(4864)),
		GI:        10,
		CI:        0,
	}, f.Instances[3])
	s, err := all[0].Sample(true)
	must.NoError(t, err)
	must.MapLen(t, 7, s.Instances)

	f = facts(t, all[1])
	must.False(t, f.MIG)
}

func TestFactsOfFabric(t *testing.T) {
	m, r := open(t, "nvl72-tray")
	g := gpus(t, r)[0]
	must.Eq(t, &nvml.Fabric{
		Cluster: "c0ffee00-1122-3344-5566-778899aabbcc", Clique: 32766, Ready: true,
	}, facts(t, g).Fabric)
	m.Set(0, "fabric", "c0ffee00112233445566778899aabbcc 32766 2 0")
	f := facts(t, g).Fabric
	must.False(t, f.Ready)
	must.StrContains(t, f.Problem, "still registering")
}

// Drivers before 550 report the fabric of a GPU, but not its health.
func TestFabricOfAnOlderDriver(t *testing.T) {
	m, r := open(t, "nvl72-tray", "-DNO_FABRIC_HEALTH")
	m.Set(0, "fabric", "c0ffee00112233445566778899aabbcc 32766 3 0 19a")
	must.Eq(t, &nvml.Fabric{
		Cluster: "c0ffee00-1122-3344-5566-778899aabbcc", Clique: 32766, Ready: true,
	}, facts(t, gpus(t, r)[0]).Fabric)
}

// The fabric of a registered GPU reports its health in pairs of bits
// (NVML_GPU_FABRIC_HEALTH_MASK_*), in which 1 is yes and 2 is no.
func TestFabricHealth(t *testing.T) {
	for name, tc := range map[string]struct{ mask, problem string }{
		"fine":               {"1aa", ""},
		"degraded bandwidth": {"1a9", ""},
		"no route":           {"19a", "the GPU's routes are unhealthy"},
		"route recovery":     {"1a6", "the GPU's routes are being recovered"},
		"timeout recovery":   {"16a", "the GPU recovers from an access that timed out"},
		"no partition":       {"4aa", "the GPU is in no partition"},
		"firmware":           {"6aa", "the GPU's firmware does not go with the fabric's"},
		"a newer driver":     {"9aa", "the GPU is configured wrongly (NVML's code 9)"},
		"two faults":         {"59a", "the GPU's routes are unhealthy, the GPU has too few NVLinks"},
	} {
		t.Run(name, func(t *testing.T) {
			m, r := open(t, "nvl72-tray")
			m.Set(0, "fabric", "c0ffee00112233445566778899aabbcc 32766 3 0 "+tc.mask)
			must.Eq(t, &nvml.Fabric{
				Cluster: "c0ffee00-1122-3344-5566-778899aabbcc", Clique: 32766, Ready: true, Problem: tc.problem,
			}, facts(t, gpus(t, r)[0]).Fabric)
		})
	}
}

// A T4 has no NVLink, MIG or fabric, and that is no error.
func TestFactsThatAreNotThere(t *testing.T) {
	_, r := open(t, "one-t4")
	f := facts(t, gpus(t, r)[0])
	must.Nil(t, f.Fabric)
	must.SliceEmpty(t, f.Ports)
	must.Eq(t, 0, f.NVLinkVersion)
	must.False(t, f.MIG)
	must.Eq(t, "turing", f.Architecture)
}

func TestLostGPU(t *testing.T) {
	m, r := open(t, "hgx-h100")
	all := gpus(t, r)
	m.Lose(1)
	_, err := all[1].Sample(false)
	must.ErrorIs(t, err, nvml.ErrGPULost)
	must.False(t, nvml.Unavailable(err))
	_, err = all[1].Facts()
	must.ErrorIs(t, err, nvml.ErrGPULost)
	_, err = all[0].Sample(false)
	must.NoError(t, err)
	m.Return(1)
	_, err = all[1].Sample(false)
	must.NoError(t, err)
}

func TestDriverUnloadedAndLoadedAgain(t *testing.T) {
	m, r := open(t, "one-t4")
	g := gpus(t, r)[0]
	m.Unload()
	_, err := g.Sample(false)
	must.ErrorIs(t, err, nvml.ErrDriverNotLoaded)
	must.True(t, nvml.Unavailable(err))
	_, err = r.Count()
	must.True(t, nvml.Unavailable(err))
	_ = r.Close()
	must.ErrorIs(t, r.Open(), nvml.ErrDriverNotLoaded)
	m.Load()
	must.NoError(t, r.Open())
	must.Len(t, 1, gpus(t, r))
}

func TestLibraryThatIsNotThere(t *testing.T) {
	r := nvml.New(nvml.Options{Library: t.TempDir() + "/libnvidia-ml.so.1"})
	err := r.Open()
	must.ErrorIs(t, err, nvml.ErrLibraryNotFound)
	must.True(t, nvml.Unavailable(err))
}

func TestEvents(t *testing.T) {
	m, r := open(t, "mig-a100")
	m.XID(1, 63) // before the watch: not reported
	all := gpus(t, r)
	w, without, err := r.Watch(all)
	must.NoError(t, err)
	must.MapEmpty(t, without)
	defer func() { must.NoError(t, w.Close()) }()

	_, ok, err := w.Next(time.Millisecond)
	must.NoError(t, err)
	must.False(t, ok)

	m.XID(1, 79)
	m.XIDOnInstance(0, 94, 9, 0)
	m.DoubleBit(1)
	for _, want := range []nvml.Event{
		{Kind: nvml.EventXID, UUID: m.UUIDs()[1], XID: 79, GI: -1, CI: -1},
		{Kind: nvml.EventXID, UUID: m.UUIDs()[0], XID: 94, GI: 9, CI: 0},
		{Kind: nvml.EventDoubleBit, UUID: m.UUIDs()[1], GI: -1, CI: -1},
	} {
		got, ok, err := w.Next(time.Minute)
		must.NoError(t, err)
		must.True(t, ok)
		must.Eq(t, want, got)
	}
	// A GPU that has fallen off the bus cannot be queried for its UUID.
	m.Lose(1)
	m.XID(1, 79)
	got, ok, err := w.Next(time.Minute)
	must.NoError(t, err)
	must.True(t, ok)
	must.Eq(t, nvml.Event{Kind: nvml.EventXID, UUID: m.UUIDs()[1], XID: 79, GI: -1, CI: -1}, got)

	m.Unload()
	_, _, err = w.Next(time.Minute)
	must.True(t, nvml.Unavailable(err))
	m.Load()
}

func TestErrorsSayWhat(t *testing.T) {
	err := fmt.Errorf("GPU 3: %w", &nvml.Error{Op: "nvmlDeviceGetName", Code: nvml.ErrResetRequired})
	must.Eq(t, "GPU 3: nvmlDeviceGetName: the GPU needs a reset", err.Error())
	var e *nvml.Error
	must.True(t, errors.As(err, &e))
	must.Eq(t, "NVML error 1234", nvml.Code(1234).Error())
}
