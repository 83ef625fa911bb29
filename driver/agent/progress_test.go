// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must.NoError(t, err)
	_, err = f.WriteString(text)
	must.NoError(t, err)
	must.NoError(t, f.Close())
}

func TestProgressFile(t *testing.T) {
	p := progressFile{path: filepath.Join(t.TempDir(), "progress")}
	must.SliceEmpty(t, p.read(), must.Sprint("not there yet"))

	appendTo(t, p.path, `{"step": 1, "loss": 0.5, "time": 100.25, "First": 7}`+"\n"+`{"step": 2`)
	lines := p.read()
	must.Len(t, 1, lines)
	must.Eq(t, 1.0, *lines[0].Step)
	must.Eq(t, 0.5, *lines[0].Loss)
	must.Greater(t, 1e9, lines[0].At, must.Sprint("the time the file was written, not what a script may log as time"))
	must.Nil(t, lines[0].Epoch)
	must.Nil(t, lines[0].First)
	must.SliceEmpty(t, p.read(), must.Sprint("half a line"))

	appendTo(t, p.path, `, "epoch": 3}`+"\nnot json\n[1]\n"+`{"step": "x"}`+"\n"+strings.Repeat("z", maxLine+1)+"\n"+`{"step": 4}`+"\n")
	lines = p.read()
	must.Len(t, 2, lines, must.Sprint("what is no progress is skipped"))
	must.Eq(t, 2.0, *lines[0].Step)
	must.Eq(t, 4.0, *lines[1].Step)

	appendTo(t, p.path, `{"step": 5, "loss": NaN}`+"\n"+`{"step": 6, "loss": -Infinity, "epoch": 1e999}`+"\n"+`{"step": 7, "loss": "inf"}`+"\nnull\n{}\n")
	lines = p.read()
	must.Len(t, 3, lines, must.Sprint("a loss that is no number leaves the rest of its line alone"))
	for i, l := range lines {
		must.Eq(t, float64(5+i), *l.Step)
		must.Nil(t, l.Loss)
		must.Nil(t, l.Epoch)
	}

	must.NoError(t, os.WriteFile(p.path, []byte(`{"step": 9}`+"\n"), 0o600))
	lines = p.read()
	must.Len(t, 1, lines, must.Sprint("the script began the file anew"))
	must.Eq(t, 9.0, *lines[0].Step)
}

func at(generation uint64, first, step, firstAt, now float64) Progress {
	return Progress{Generation: generation, First: &first, Step: &step, FirstAt: firstAt, At: now}
}

func ringOf(generation uint64, n int) *elastic.Ring {
	return &elastic.Ring{Generation: generation, Members: make([]elastic.Member, n)}
}

func TestLedgerMeasuresGapsBetweenSteps(t *testing.T) {
	l := newLedger(nil)
	begin := time.Unix(1000, 0)
	l.form(ringOf(1, 2), begin)
	r := l.up(begin.Add(time.Second))
	must.NotNil(t, r, must.Sprint("nothing was reported yet: the rendezvous is all there is"))
	must.Eq(t, "start", r.Cause)

	must.Nil(t, l.progress(at(1, 1, 1, 1002, 1002)))
	must.Nil(t, l.progress(at(1, 1, 11, 1002, 1003)))
	must.Eq(t, StepTime{Mean: 0.1, N: 10}, l.stepSeconds()[2])

	l.leave(time.Unix(1003, 0))
	l.form(ringOf(2, 4), time.Unix(1004, 0))
	must.Nil(t, l.up(time.Unix(1004, 0).Add(250*time.Millisecond)), must.Sprint("the first step is still to come"))
	r = l.progress(at(2, 12, 12, 1005, 1005))
	must.NotNil(t, r)
	must.Eq(t, Resize{Generation: 2, From: 2, To: 4, Cause: "resize", Gap: 2, Rendezvous: 0.25, Time: 1004}, *r)
}

// Ranks that have a batch each do more in a step the more they are.
func TestLedgerMeasuresSamplesPerStep(t *testing.T) {
	report := func(l *ledger, generation uint64, first, firstSamples, step, samples, now float64) {
		p := at(generation, first, step, 1000, now)
		p.FirstSamples, p.Samples = &firstSamples, &samples
		l.progress(p)
	}
	l := newLedger(nil)
	l.form(ringOf(1, 2), time.Unix(1000, 0))
	report(l, 1, 1, 24, 11, 264, 1001)
	must.Eq(t, StepTime{Mean: 0.1, N: 10, Samples: 24}, l.stepSeconds()[2])
	report(l, 1, 1, 24, 21, 504, 1002)
	must.Eq(t, StepTime{Mean: 0.1, N: 20, Samples: 24}, l.stepSeconds()[2])

	l = newLedger(&Status{Size: 2, StepSeconds: l.stepSeconds()})
	must.Eq(t, StepTime{Mean: 0.1, N: 20, Samples: 24}, l.stepSeconds()[2], must.Sprint("another leader goes on from here"))
	l.form(ringOf(2, 4), time.Unix(1003, 0))
	report(l, 2, 22, 552, 33, 1080, 1004)
	must.Eq(t, 48, l.stepSeconds()[4].Samples)
}

func TestLedgerCountsStepsMadeAgain(t *testing.T) {
	l := newLedger(nil)
	l.form(ringOf(1, 4), time.Unix(1000, 0))
	l.up(time.Unix(1000, 0))
	l.progress(at(1, 1, 20, 1001, 1010))
	l.fail()
	l.leave(time.Unix(1011, 0))
	l.form(ringOf(2, 3), time.Unix(1011, 0))
	l.up(time.Unix(1011, 0))
	r := l.progress(at(2, 16, 16, 1012, 1012)) // back to the commit after step 15
	must.NotNil(t, r)
	must.Eq(t, "failure", r.Cause)
	must.Eq(t, 5, r.LostSteps)
}

func TestLedgerGoesOnFromAnotherLeadersStatus(t *testing.T) {
	step := 7.0
	l := newLedger(&Status{Size: 3, Generation: 4, Step: &step, ProgressAt: 50, StepSeconds: map[int]StepTime{3: {Mean: 2, N: 10}},
		Resizes: []Resize{{Generation: 4, To: 3}}})
	must.Eq(t, 10, l.stepSeconds()[3].N)
	must.Eq(t, 7.0, *l.newest().Step)
	must.Len(t, 1, l.resizes)
}

// A script may write its steps and its loss on lines of their own.
func TestStepsAreNotLostAmongOtherLines(t *testing.T) {
	h := NewHost(HostOptions{Config: Config{Slots: 1}, Logger: hclog.NewNullLogger()})
	s := h.slots[0]
	s.State, s.progress.path = elastic.InRing, filepath.Join(t.TempDir(), "progress")
	appendTo(t, s.progress.path, `{"step": 1}`+"\n"+`{"step": 2}`+"\n"+`{"loss": 0.5}`+"\n")
	h.drain(s)
	must.Eq(t, 2.0, *s.latest.Step)
	appendTo(t, s.progress.path, `{"loss": 0.4}`+"\n")
	h.drain(s)
	must.Eq(t, 2.0, *s.latest.Step)
	must.Eq(t, 0.4, *s.latest.Loss)
}

// What came too soon after the last report is told later, though no line follows:
// the script may be long at something else, or hang.
func TestTheLastStepIsTold(t *testing.T) {
	h := NewHost(HostOptions{Config: Config{Slots: 1}, Logger: hclog.NewNullLogger()})
	up, leader := newPipes()
	h.session = up
	s := h.slots[0]
	s.State, s.progress.path = elastic.InRing, filepath.Join(t.TempDir(), "progress")
	told := func() (steps []float64) {
		p := leader.(pipeHostSession).in
		for _, m := range p.items {
			steps = append(steps, *m.Progress.Step)
		}
		p.items = nil
		return steps
	}
	appendTo(t, s.progress.path, `{"step": 1}`+"\n")
	h.drain(s)
	must.Eq(t, []float64{1}, told())
	appendTo(t, s.progress.path, `{"step": 2}`+"\n")
	s.sent = time.Now().Add(time.Hour)
	h.drain(s)
	must.SliceEmpty(t, told(), must.Sprint("too soon"))
	s.sent = time.Time{}
	h.drain(s)
	must.Eq(t, []float64{2}, told())
	h.drain(s)
	must.SliceEmpty(t, told(), must.Sprint("it was told"))
}

func TestLedger_TheNextLeaderCountsNoStepTwice(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	l := newLedger(&Status{Size: 4, Generation: 3, Step: f(1000), ProgressAt: 1001, StepSeconds: map[int]StepTime{4: {Mean: 1, N: 1000}}})
	l.progress(Progress{Generation: 3, At: 1021, Step: f(1010), First: f(0), FirstAt: 1})
	got := l.stepSeconds()[4]
	must.Eq(t, 1010, got.N)
	must.InDelta(t, 1020.0/1010, got.Mean, 1e-9)
}
