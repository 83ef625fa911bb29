// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// start returns a running plugin as Nomad has it after SetConfig.
func start(t *testing.T, hw *nvmltest.Machine, config map[string]any) *Device {
	t.Helper()
	all := map[string]any{"enabled": true, "device_nodes": true}
	for k, v := range config {
		all[k] = v
	}
	d := New(hclog.NewNullLogger(), Options{NVML: library(hw), Root: t.TempDir()})
	d.eventWait = 20 * time.Millisecond
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: pack(t, all)}))
	t.Cleanup(d.Close)
	return d
}

// message returns the next one of the stream.
func message(t *testing.T, ch <-chan *device.FingerprintResponse) *device.FingerprintResponse {
	t.Helper()
	select {
	case f, ok := <-ch:
		must.True(t, ok, must.Sprint("the stream has ended"))
		must.NoError(t, f.Error)
		return f
	case <-time.After(time.Minute):
		t.Fatal("no fingerprint came")
		return nil
	}
}

var quick = map[string]any{"enabled": true, "interval": "100ms", "grace": "0s", "healthy_after": "0s"}

func TestFingerprintNeverEnds(t *testing.T) {
	hw := nvmltest.New(t, "hgx-h100")
	d := start(t, hw, map[string]any{"health": quick})
	ctx, cancel := context.WithCancel(context.Background())
	ch, err := d.Fingerprint(ctx)
	must.NoError(t, err)
	must.Len(t, 8, message(t, ch).Devices[0].Devices)

	until := func(healthy int64) {
		t.Helper()
		for *message(t, ch).Devices[0].Attributes["healthy"].Int != healthy {
		}
	}
	hw.Unload()
	until(0)
	hw.Load()
	until(8)
	hw.XID(0, 79)
	until(7)

	// A new configuration takes effect on the open stream.
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: pack(t, map[string]any{
		"enabled": true, "group_by": "numa", "health": quick,
	})}))
	must.Len(t, 2, message(t, ch).Devices)

	cancel()
	for range ch { // ends with the context
	}
}

// The configured periods and limits are used.
func TestOptionsAreUsed(t *testing.T) {
	hw := nvmltest.New(t, "hgx-h100")
	d := start(t, hw, map[string]any{"fingerprint_period": "1s", "health": map[string]any{
		"enabled": false, "interval": "200ms", "call_timeout": "300ms",
	}})
	ch, err := d.Fingerprint(t.Context())
	must.NoError(t, err)
	message(t, ch)
	// What only reading the whole machine shows.
	hw.Set(0, "power_limit", "350000")
	must.Eq(t, 350, *message(t, ch).Devices[0].Attributes["power"].Int)

	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: pack(t, map[string]any{
		"enabled": true, "fingerprint_period": "24h", "health": map[string]any{
			"enabled": true, "interval": "200ms", "grace": "0s", "healthy_after": "0s", "call_timeout": "300ms",
		},
	})}))
	message(t, ch)
	// What the regular check shows, and a call that hangs for longer than its limit.
	hw.Set(1, "error", "16")
	for *message(t, ch).Devices[0].Attributes["healthy"].Int != 7 {
	}
	hw.HangAll(1)
	for *message(t, ch).Devices[0].Attributes["healthy"].Int != 0 {
	}
	hw.HangAll(0)
	for *message(t, ch).Devices[0].Attributes["healthy"].Int != 7 {
	}
}

func TestDisabled(t *testing.T) {
	d := start(t, nvmltest.New(t, "one-t4"), map[string]any{"enabled": false})
	_, err := d.Fingerprint(context.Background())
	must.ErrorIs(t, err, device.ErrPluginDisabled)
	_, err = d.Stats(context.Background(), time.Second)
	must.ErrorIs(t, err, device.ErrPluginDisabled)
	_, err = d.Reserve([]string{"GPU-1"})
	must.ErrorIs(t, err, device.ErrPluginDisabled)
}

func TestBadConfigChangesNothing(t *testing.T) {
	d := start(t, nvmltest.New(t, "one-t4"), nil)
	err := d.SetConfig(&base.Config{PluginConfig: pack(t, map[string]any{"enabled": true, "group_by": "x"})})
	must.ErrorContains(t, err, "group_by")
	must.Eq(t, inventory.GroupByNode, d.cfg.Monitor.GroupBy)
}

func TestReserve(t *testing.T) {
	hw := nvmltest.New(t, "hgx-h100")
	d := start(t, hw, map[string]any{"health": quick})
	id := hw.UUIDs()
	r, err := d.Reserve([]string{id[5], id[2]})
	must.NoError(t, err)
	list := id[2] + "," + id[5] // in the order in which CUDA numbers them
	key := "KOLO_GPUS_" + reservationKey([]string{id[2], id[5]})
	numbers := "KOLO_GPU_NUMBERS_" + reservationKey([]string{id[2], id[5]})
	must.Eq(t, map[string]string{"NVIDIA_VISIBLE_DEVICES": list, key: list, numbers: "2,5"}, r.Envs)
	must.SliceEmpty(t, r.Devices) // there are no nodes on this machine
	must.SliceEmpty(t, r.Mounts)

	// Another block of the same task has another key.
	other, err := d.Reserve([]string{id[0]})
	must.NoError(t, err)
	_, clash := other.Envs[key]
	must.False(t, clash)
	must.MapLen(t, 3, other.Envs)

	none, err := d.Reserve(nil)
	must.NoError(t, err)
	must.MapEmpty(t, none.Envs)

	_, err = d.Reserve([]string{id[1], "GPU-of-another-machine"})
	must.ErrorContains(t, err, "GPU-of-another-machine is not on this machine")

	ch, err := d.Fingerprint(t.Context())
	must.NoError(t, err)
	hw.Lose(1)
	for *message(t, ch).Devices[0].Attributes["healthy"].Int != 7 {
	}
	_, err = d.Reserve([]string{id[1]})
	must.ErrorContains(t, err, id[1]+" is unhealthy: the GPU has fallen off the bus")
}

func TestReservationKeyIgnoresOrder(t *testing.T) {
	must.Eq(t, reservationKey([]string{"a", "b"}), reservationKey([]string{"b", "a"}))
	must.NotEq(t, reservationKey([]string{"a", "b"}), reservationKey([]string{"a"}))
	must.RegexMatch(t, regexp.MustCompile("^[0-9a-f]{8}$"), reservationKey([]string{"a"}))
}

// Nodes that exist are passed to the task; regular files are not nodes.
func TestReserveNodesAndCDI(t *testing.T) {
	d := &Device{log: hclog.NewNullLogger(), opts: Options{Root: t.TempDir()}}
	dev := filepath.Join(d.opts.Root, "dev")
	must.NoError(t, os.MkdirAll(dev, 0o755))
	for _, name := range []string{"nvidia3", "nvidiactl", "nvidia-uvm"} {
		// A link to a character device stands for one: making one needs root.
		must.NoError(t, os.Symlink("/dev/null", filepath.Join(dev, name)))
	}
	must.NoError(t, os.WriteFile(filepath.Join(dev, "nvidia-modeset"), nil, 0o600))
	minor := 3
	units := []inventory.Unit{{GPU: &nvml.Facts{UUID: "GPU-3", Minor: &minor}}}

	var paths []string
	for _, s := range d.reservation(units, true).Devices {
		must.Eq(t, s.HostPath, s.TaskPath)
		must.Eq(t, "rwm", s.CgroupPerms)
		paths = append(paths, s.HostPath)
	}
	must.Eq(t, []string{"/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidiactl"}, paths)
	must.SliceEmpty(t, d.reservation(units, false).Devices)

	cdi := filepath.Join(d.opts.Root, "etc/cdi")
	must.NoError(t, os.MkdirAll(cdi, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(cdi, "nvidia.yaml"), []byte("kind: nvidia.com/gpu\n"), 0o600))
	envs := d.reservation(append(units, inventory.Unit{GPU: &nvml.Facts{UUID: "GPU-5"}}), true).Envs
	must.Eq(t, "nvidia.com/gpu=GPU-3,nvidia.com/gpu=GPU-5", envs["KOLO_CDI_"+reservationKey([]string{"GPU-3", "GPU-5"})])
	must.Eq(t, "nvidia.com/gpu=GPU-3", envs["KOLO_CDI_0"])
	must.Eq(t, "nvidia.com/gpu=GPU-5", envs["KOLO_CDI_1"])
	must.MapNotContainsKey(t, envs, "KOLO_CDI_2")
}

func TestStats(t *testing.T) {
	hw := nvmltest.New(t, "hgx-h100")
	hw.Set(6, "throttle", "68")
	hw.Set(6, "nvlink_kibps", "1000000")
	d := start(t, hw, nil)
	ch, err := d.Stats(t.Context(), 100*time.Millisecond)
	must.NoError(t, err)
	<-ch
	s := <-ch // the second has rates
	must.NoError(t, s.Error)
	must.Len(t, 1, s.Groups)
	must.Eq(t, "NVIDIA H100 80GB HBM3", s.Groups[0].Name)
	must.MapLen(t, 8, s.Groups[0].InstanceStats)
	one := s.Groups[0].InstanceStats[hw.UUIDs()[6]]
	must.Eq(t, 4, *one.Summary.IntNumeratorVal)
	must.Eq(t, 81559, *one.Summary.IntDenominatorVal)
	a := one.Stats.Attributes
	must.Eq(t, 72, *a["Power usage"].IntNumeratorVal) // not milliwatts
	must.Eq(t, 700, *a["Power usage"].IntDenominatorVal)
	must.Eq(t, "power cap, hardware thermal slowdown", *a["Throttle reasons"].StringVal)
	must.Eq(t, "healthy", *a["Health"].StringVal)
	must.Between(t, 900, *a["NVLink TX"].IntNumeratorVal, 1200)
	for name, v := range a {
		must.NotEq(t, "", v.Desc, must.Sprint(name))
	}
}

// The statistics of a GPU that cannot be read contain only its health.
func TestStatsWithoutAReading(t *testing.T) {
	h := newHost(t, "one-t4", inventory.GroupByNode)
	v, id := h.view(), h.hw.UUIDs()[0]
	v.Health[id] = monitor.Condition{Reason: "the GPU has fallen off the bus"}
	all := stats(v, time.Now(), nil)
	must.Len(t, 1, all)
	a := all[0].InstanceStats[id].Stats.Attributes
	must.Eq(t, notAvailable, *a["Temperature"].StringVal)
	must.Eq(t, "the GPU has fallen off the bus", *a["Health"].StringVal)
}

func TestStatsOfMIG(t *testing.T) {
	hw := nvmltest.New(t, "mig-a100")
	d := start(t, hw, nil)
	ch, err := d.Stats(t.Context(), time.Second)
	must.NoError(t, err)
	s := <-ch
	must.Len(t, 2, s.Groups)
	for _, g := range s.Groups {
		if len(g.InstanceStats) == 7 {
			must.Eq(t, 4864, *g.InstanceStats["MIG-f4000000-0000-5000-8000-000000000000"].Summary.IntDenominatorVal)
			return
		}
	}
	t.Fatal("no group of instances")
}
