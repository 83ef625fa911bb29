// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// A failure an hour ago is forgiven on the host as it is on the leader.
func TestAHostForgivesFailures(t *testing.T) {
	h := NewHost(HostOptions{Config: Config{Slots: 2}, ID: "h", Logger: hclog.NewNullLogger()})
	s := h.slots[0]
	fail := func() {
		cmd := exec.Command("false")
		must.Error(t, cmd.Run())
		s.State, s.Incarnation = elastic.InRing, s.Incarnation+1
		s.proc = &process{cmd: cmd}
		h.exited(s, s.proc, h.proc(0))
	}
	for range 3 {
		fail()
	}
	report := h.register().Info.Slots[0]
	must.Eq(t, 3, report.Failures)
	must.Between(t, 0, report.FailedAgo, 60)

	s.failed = s.failed.Add(-time.Hour)
	report = h.register().Info.Slots[0]
	must.Eq(t, 0, elastic.Forgive(report.Failures, time.Duration(report.FailedAgo*float64(time.Second))))
	fail()
	report = h.register().Info.Slots[0]
	must.Eq(t, 1, report.Failures)
	must.Between(t, 0, report.FailedAgo, 60)

	must.Eq(t, elastic.SlotReport{}, h.register().Info.Slots[1], must.Sprint("it never failed"))
}
