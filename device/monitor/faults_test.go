// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// With health checks disabled, a GPU that no longer exists is still unhealthy.
func TestHealthDisabledAndGPUsMissing(t *testing.T) {
	r := newRig(t, "hgx-h100", func(c *Config) { c.Health.Enabled = false })
	r.hw.XID(3, 95)
	r.event()
	must.MapEmpty(t, r.unhealthy())
	r.hw.Unplug(7)
	r.pass(time.Minute)
	must.MapLen(t, 1, r.unhealthy())
	must.Eq(t, "NVML no longer lists the GPU", r.unhealthy()[r.hw.UUIDs()[7]])
	r.hw.Unload()
	r.pass(time.Minute)
	r.pass(time.Minute)
	must.MapLen(t, 8, r.unhealthy())
}

// flaky is a library whose first watches fail.
type flaky struct {
	nvml.Library
	failures int
	code     nvml.Code
	watches  int
}

func (f *flaky) Watch(gpus []nvml.GPU) (nvml.Watch, map[int]error, error) {
	if f.watches++; f.watches <= f.failures {
		return nil, nil, &nvml.Error{Op: "nvmlEventSetCreate", Code: f.code}
	}
	return f.Library.Watch(gpus)
}

func TestAWatchThatFailsIsTriedAgain(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.m.disconnect(nil)
	f := &flaky{Library: r.m.lib, failures: 3, code: nvml.ErrUnknown}
	r.m.lib = f
	period := r.m.cfg.FingerprintPeriod
	for range 10 { // attempts after 0, 1, 3 and 7 periods
		r.m.refresh(r.now)
		r.now = r.now.Add(period)
	}
	must.Eq(t, 4, f.watches)
	r.hw.XID(3, 79)
	r.event()
	must.MapContainsKey(t, r.unhealthy(), r.hw.UUIDs()[3])

	r.m.disconnect(nil)
	f.watches, f.code = 0, nvml.ErrNotSupported
	for range 10 {
		r.m.refresh(r.now)
		r.now = r.now.Add(period)
	}
	must.Eq(t, 1, f.watches, must.Sprint("what is not supported is not tried again"))
}

// An XID is not dropped if it arrives while NVML is closed and opened again, which
// happens each minute while any GPU is lost.
func TestXIDWhileNVMLIsReopened(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.XID(3, 79)
	// The listener has the event, and no one receives it yet.
	must.Eq(t, 0, len(r.m.events))
	time.Sleep(5 * r.m.opts.EventWait)
	r.reopen()
	must.MapContainsKey(t, r.unhealthy(), r.hw.UUIDs()[3])
}

// NVML is opened again for a GPU that could not be read when the plugin started, as
// for one that was lost later. That may never help, so it happens less and less
// often.
func TestAGPULostBeforeTheStart(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Lose(2)
	r.reboot()
	must.MapLen(t, 7, r.names())
	must.Eq(t, 7, r.reopenings(64)) // after 0, 1, 3, 7, 15, 31 and 63 minutes
	r.hw.Return(2)
	must.LessEq(t, 1, r.reopenings(60))
	must.MapLen(t, 8, r.names())
	must.Eq(t, 0, r.reopenings(10))
}

// reopenings returns how often NVML is opened again within that many minutes.
func (r *rig) reopenings(minutes int) int {
	n := 0
	for range minutes {
		if r.m.reopenForUnidentified(r.now) {
			n++
			r.m.disconnect(nil)
		}
		r.m.refresh(r.now)
		r.now = r.now.Add(time.Minute)
	}
	return n
}

// A GPU may be ignored because it is broken. In that case NVML is rarely opened
// again, because it is only likely that the unreadable GPU is the ignored one.
func TestAnIgnoredGPUThatIsBroken(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.m.cfg.IgnoredGPUIDs = r.hw.UUIDs()[2:3]
	r.hw.Lose(2)
	r.restart()
	must.MapLen(t, 7, r.names())
	at := r.m.lastRefresh
	for range 10 {
		r.pass(time.Minute)
	}
	must.Eq(t, at, r.m.lastRefresh)
	must.False(t, r.m.anyGPU(isLost))
	must.Eq(t, 2, r.reopenings(90))

	// Another one is not ignored.
	r.hw.Lose(5)
	r.m.refresh(r.now)
	must.True(t, r.m.anyGPU(isLost))
	must.MapLen(t, 1, r.unhealthy())
}

func TestIgnoredIDsThatNoGPUHas(t *testing.T) {
	var output bytes.Buffer
	r := newRig(t, "hgx-h100", nil)
	r.m.cfg.IgnoredGPUIDs = []string{"GPU-none", r.hw.UUIDs()[1]}
	r.m.log = hclog.New(&hclog.LoggerOptions{Output: &output})
	r.m.logged.unreadable = nil // as in a new process
	r.m.refresh(r.now)
	r.m.refresh(r.now)
	must.Eq(t, 1, strings.Count(output.String(), "GPU-none"))
	must.Eq(t, []string{"GPU-none"}, r.m.inventory.UnmatchedIgnores)
}

// Readings of a driver or GPU that is gone are removed.
func TestNoReadingsOfWhatIsGone(t *testing.T) {
	for name, harm := range map[string]func(*rig){
		"the driver was unloaded": func(r *rig) { r.hw.Unload() },
		"the GPU was lost":        func(r *rig) { r.hw.Lose(0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "one-t4", nil)
			r.pass(5 * time.Second)
			must.MapLen(t, 1, r.m.Readings())
			harm(r)
			r.settle()
			must.MapEmpty(t, r.m.Readings())
			must.MapLen(t, 1, r.unhealthy())
		})
	}
}

// Two GPUs without peer access may get it later, for example when the fabric
// manager has started.
func TestLaterPeers(t *testing.T) {
	r := newRig(t, "pcie-l40s", nil)
	all := r.view().Layout.Groups()[0].Members
	must.False(t, r.view().Layout.Matrix.Joined(all))
	r.hw.JoinPeers()
	r.m.refresh(r.now)
	must.True(t, r.view().Layout.Matrix.Joined(all))
}

// denying is a library that denies NVLink between all GPUs, as a driver does over
// NVSwitch before the fabric manager has assigned addresses.
type denying struct {
	nvml.Library
	on bool
}

func (d *denying) Pair(a, b nvml.GPU) (topology.Pair, error) {
	p, err := d.Library.Pair(a, b)
	if d.on {
		p.Peer, p.NoNVLink = true, true
	}
	return p, err
}

func TestNVLinkThatIsDeniedAtFirst(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = inventory.GroupByNVLink })
	r.m.disconnect(nil)
	d := &denying{Library: r.m.lib, on: true}
	r.m.lib = d
	r.m.refresh(r.now)
	d.on = false
	r.settle()
	must.MapEmpty(t, r.unhealthy())
	must.Eq(t, "4;6xNV4", r.topologies()[0])
}

// Links that are down only for a moment, while the machine is read, do not make a
// GPU unhealthy.
func TestLinksDownForAMoment(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = inventory.GroupByNVLink })
	r.hw.Set(0, "nolinks", "0")
	r.m.refresh(r.now)
	r.hw.Set(0, "nolinks", "12")
	r.settle()
	must.MapEmpty(t, r.unhealthy())
}
