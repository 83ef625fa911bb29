// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

func job(id string) Key {
	return Key{Pool: "gpu", Job: identity.JobKey{Namespace: "default", ID: id}}
}

// draw writes lines as "id minute=slots …".
func draw(lines []Line) (out []string) {
	for _, l := range lines {
		words := []string{l.Key.Job.ID}
		for _, p := range l.Points {
			words = append(words, fmt.Sprintf("%g=%d", p.At.Sub(start).Minutes(), p.Slots))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func TestSlots(t *testing.T) {
	s := NewSlots(time.Hour, 100)
	must.True(t, s.Empty())
	s.Record(at(0), map[Key]int{job(""): 8, job("a"): 8})
	s.Record(at(5), map[Key]int{job(""): 8, job("a"): 8})
	s.Record(at(10), map[Key]int{job(""): 8, job("a"): 4, job("b"): 4})
	s.Record(at(30), map[Key]int{job(""): 8, job("b"): 8})
	lines, from := s.Since(at(-60))
	must.Eq(t, at(0), from)
	must.Eq(t, []string{" 0=8", "a 0=8 10=4 30=0", "b 10=4 30=8"}, draw(lines))

	lines, _ = s.Since(at(20))
	must.Eq(t, []string{" 20=8", "a 20=4 30=0", "b 20=4 30=8"}, draw(lines))

	s.Record(at(80), map[Key]int{job(""): 8, job("b"): 8}) // an hour after minute 20
	lines, from = s.Since(at(0))
	must.Eq(t, at(20), from)
	must.Eq(t, []string{" 20=8", "a 20=4 30=0", "b 20=4 30=8"}, draw(lines))
}

func TestSlots_Seed(t *testing.T) {
	s := NewSlots(time.Hour, 100)
	s.Seed([]Change{
		{at(50), job("a"), -4}, {at(-100), job("a"), 4}, {at(20), job("b"), 2}, {at(30), job("b"), 2}, {at(30), job("b"), -2}, {at(99), job("late"), 1},
	}, at(60))
	lines, from := s.Since(at(-200))
	must.Eq(t, at(0), from)
	must.Eq(t, []string{"a 0=4 50=0", "b 20=2 30=4 30=2"}, draw(lines))
}

// A tenant cannot make the autoscaler store more and more.
func TestSlots_IsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSlots(time.Hour, 20)
		now, last := start, map[Key]int{}
		for range 50 {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
			last = map[Key]int{}
			for i := range rapid.IntRange(0, 4).Draw(t, "jobs") {
				if n := rapid.IntRange(0, 3).Draw(t, "slots"); n > 0 {
					last[job(strconv.Itoa(i))] = n
				}
			}
			s.Record(now, last)
		}
		must.LessEq(t, 20, len(s.log))
		lines, from := s.Since(start)
		must.False(t, from.Before(now.Add(-time.Hour)))
		for _, l := range lines {
			must.Eq(t, last[l.Key], l.Points[len(l.Points)-1].Slots)
		}
	})
}

func TestSeries(t *testing.T) {
	s := &Series{}
	must.True(t, s.Heard().IsZero())
	loss := 0.5
	for i := range 10_000 {
		s.Add(Sample{At: start.Add(time.Duration(i) * time.Second), Size: 4, Step: float64(min(i, 9000)), Loss: &loss})
		s.Note(Mark{At: start, To: i})
	}
	samples := s.Samples()
	must.LessEq(t, mostSamples, len(samples))
	must.Greater(t, mostSamples/3, len(samples))
	must.Eq(t, start, samples[0].At)
	must.Eq(t, start.Add(9999*time.Second), s.Heard())
	must.Eq(t, start.Add(9000*time.Second), s.Stepped())
	must.Len(t, mostMarks, s.Marks())
	must.Eq(t, 9999, s.Marks()[mostMarks-1].To)

	must.Eq(t, 4, samples[0].Size)
	must.Eq(t, &loss, samples[0].Loss)
	must.LessEq(t, 20<<10, cap(s.samples)*int(unsafe.Sizeof(sample{}))+cap(s.marks)*int(unsafe.Sizeof(Mark{})), must.Sprint("bytes of a series"))

	s.Add(Sample{At: start, Step: 1e9}) // an older report
	must.Eq(t, start.Add(9999*time.Second), s.Heard())
}

// The moment of a resize stays visible although reports follow each other closely.
func TestSeries_KeepsChangesOfTheSize(t *testing.T) {
	s := &Series{}
	for i, size := range []int{4, 4, 4, 2, 2, 4} {
		s.Add(Sample{At: start.Add(time.Duration(i) * time.Millisecond), Size: size})
	}
	var sizes []int
	for _, p := range s.Samples() {
		sizes = append(sizes, p.Size)
	}
	must.Eq(t, []int{4, 4, 2, 2, 4}, sizes)
}
