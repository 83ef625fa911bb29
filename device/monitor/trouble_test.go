// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// Where nobody wants health to be judged, a GPU that is not there is still not
// offered.
func TestHealthOffAndNothingThere(t *testing.T) {
	r := newRig(t, "hgx-h100", func(c *Config) { c.Health.Enabled = false })
	r.hw.XID(3, 95)
	r.event()
	must.MapEmpty(t, r.sick())
	r.hw.Unplug(7)
	r.pass(time.Minute)
	must.MapLen(t, 1, r.sick())
	v, _ := r.m.latest()
	_, err := v.reserve(r.hw.UUIDs()[7:8])
	must.ErrorContains(t, err, "NVML does not list the GPU any more")
	r.hw.Unload()
	r.pass(time.Minute)
	r.pass(time.Minute)
	must.MapLen(t, 8, r.sick())
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
	must.MapContainsKey(t, r.sick(), r.hw.UUIDs()[3])

	r.m.disconnect(nil)
	f.watches, f.code = 0, nvml.ErrNotSupported
	for range 10 {
		r.m.refresh(r.now)
		r.now = r.now.Add(period)
	}
	must.Eq(t, 1, f.watches, must.Sprint("what is not supported will not be"))
}

// An XID that comes while NVML is closed and opened again, which is so each
// minute while any GPU is lost, is not lost itself.
func TestXIDWhileNVMLIsOpenedAnew(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.XID(3, 79)
	// The listener has it in hand, and nobody takes it.
	must.Eq(t, 0, len(r.m.events))
	time.Sleep(5 * r.m.eventWait)
	r.reopen()
	must.MapContainsKey(t, r.sick(), r.hw.UUIDs()[3])
}

// A GPU that could not be read when the plugin started is looked for with new
// starts of NVML, as one that was lost later; but less and less often, for it may
// be in vain.
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

// reopenings counts how often NVML is opened anew in so many minutes.
func (r *rig) reopenings(minutes int) int {
	n := 0
	for range minutes {
		if r.m.reopenForUnread(r.now) {
			n++
			r.m.disconnect(nil)
		}
		r.m.refresh(r.now)
		r.now = r.now.Add(time.Minute)
	}
	return n
}

// A GPU may be ignored because it is broken. Then little is done about it: it is
// only likely that it is this one.
func TestAnIgnoredGPUThatIsBroken(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.m.cfg.IgnoredGPUIDs = r.hw.UUIDs()[2:3]
	r.hw.Lose(2)
	r.restart()
	must.MapLen(t, 7, r.names())
	at := r.m.refreshed
	for range 10 {
		r.pass(time.Minute)
	}
	must.Eq(t, at, r.m.refreshed)
	must.False(t, r.m.anyMissing(isLost))
	must.Eq(t, 2, r.reopenings(90))

	// Another one besides is not ignored.
	r.hw.Lose(5)
	r.m.refresh(r.now)
	must.True(t, r.m.anyMissing(isLost))
	must.MapLen(t, 1, r.sick())
}

func TestIgnoredIDsThatNoGPUHas(t *testing.T) {
	var said logged
	r := newRig(t, "hgx-h100", nil)
	r.m.cfg.IgnoredGPUIDs = []string{"GPU-none", r.hw.UUIDs()[1]}
	r.m.log = hclog.New(&hclog.LoggerOptions{Output: &said})
	r.m.unreadSaid = nil // as in a new process
	r.m.refresh(r.now)
	r.m.refresh(r.now)
	must.Eq(t, 1, strings.Count(said.String(), "GPU-none"))
	must.Eq(t, []string{"GPU-none"}, r.m.machine.unmet)
}

// Readings of a driver that has gone are no readings, and Nomad hears what has
// become of a GPU in its statistics too.
func TestNoReadingsOfWhatIsGone(t *testing.T) {
	for name, harm := range map[string]func(*rig){
		"the driver was unloaded": func(r *rig) { r.hw.Unload() },
		"the GPU was lost":        func(r *rig) { r.hw.Lose(0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "one-t4", nil)
			r.pass(5 * time.Second)
			must.MapLen(t, 1, *r.m.readings.Load())
			harm(r)
			r.settled()
			must.MapEmpty(t, *r.m.readings.Load())
			v, _ := r.m.latest()
			stats := v.stats(r.now, *r.m.readings.Load())
			must.Len(t, 1, stats)
			s := stats[0].InstanceStats[r.hw.UUIDs()[0]]
			must.Eq(t, notAvailable, *s.Stats.Attributes["Temperature"].StringVal)
			must.Eq(t, r.sick()[r.hw.UUIDs()[0]], *s.Stats.Attributes["Health"].StringVal)
			must.NotEq(t, "", *s.Stats.Attributes["Health"].StringVal)
		})
	}
}

// Two GPUs that could not reach each other may later, as when the fabric manager
// has started.
func TestPeersThatComeLater(t *testing.T) {
	r := newRig(t, "pcie-l40s", nil)
	must.Eq(t, "false", attribute(t, r.groups()[0], "p2p"))
	r.hw.JoinPeers()
	r.m.refresh(r.now)
	must.Eq(t, "true", attribute(t, r.groups()[0], "p2p"))
}

// denying is a library that denies NVLink between all, as a driver does over
// NVSwitch before the fabric manager has given addresses.
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
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = GroupByNVLink })
	r.m.disconnect(nil)
	d := &denying{Library: r.m.lib, on: true}
	r.m.lib = d
	r.m.refresh(r.now)
	d.on = false
	r.settled()
	must.MapEmpty(t, r.sick())
	must.Eq(t, "4;6xNV4", attribute(t, r.groups()[0], "topology"))
}

// Links that are down for a moment, just when the machine is read, make no GPU
// unhealthy.
func TestLinksDownForAMoment(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = GroupByNVLink })
	r.hw.Set(0, "nolinks", "0")
	r.m.refresh(r.now)
	r.hw.Set(0, "nolinks", "12")
	r.settled()
	must.MapEmpty(t, r.sick())
}
