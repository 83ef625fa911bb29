// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

var begin = time.UnixMilli(1_790_000_000_000)

// write returns a recording of frames, in blocks of the given number of frames.
func write(t testing.TB, frames []Frame, block int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for i := range frames {
		must.NoError(t, w.Add(&frames[i]))
		if (i+1)%block == 0 {
			must.NoError(t, w.Flush())
		}
	}
	must.NoError(t, w.Flush())
	return out.Bytes()
}

func open(t testing.TB, text []byte) *Recording {
	t.Helper()
	r, err := Open(bytes.NewReader(text), int64(len(text)))
	must.NoError(t, err)
	return r
}

// random returns frames that change as answers do: numbers change, elements come and go, lists
// lose their first element and get another, and requests appear and disappear.
func random(rng *rand.Rand, n int) []Frame {
	answers := map[string][]byte{}
	var out []Frame
	at := begin
	for range n {
		at = at.Add(time.Duration(1+rng.IntN(20_000)) * time.Millisecond)
		for range rng.IntN(4) {
			request := fmt.Sprintf("/v1/job?id=job-%d&namespace=default", rng.IntN(5))
			switch old := answers[request]; {
			case rng.IntN(8) == 0:
				delete(answers, request)
			case old == nil || rng.IntN(8) == 0:
				answers[request] = series(rng, rng.IntN(40))
			case rng.IntN(8) == 0:
				answers[request] = nil
			default:
				answers[request] = edit(rng, slices.Clone(old))
			}
		}
		f := Frame{At: at, Answers: maps.Clone(answers)}
		for range rng.IntN(3) {
			f.Events = append(f.Events, series(rng, 1))
		}
		out = append(out, f)
	}
	return out
}

func series(rng *rand.Rand, n int) []byte {
	out := []byte(`{"time":[`)
	for range n {
		out = fmt.Appendf(out, "%.3f,", rng.Float64()*1000)
	}
	return append(out, `],"name":"…"}`...)
}

func edit(rng *rand.Rand, text []byte) []byte {
	for range 1 + rng.IntN(5) {
		i := rng.IntN(len(text) + 1)
		j := min(len(text), i+rng.IntN(12))
		text = slices.Replace(text, i, j, []byte(strconv.Itoa(rng.IntN(10_000)))...)
	}
	return text
}

// A reader gets what was written, for each time, in any order, and for blocks of any size.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		frames := random(rng, 1+rng.IntN(60))
		r := open(t, write(t, frames, 1+rng.IntN(30)))
		must.Eq(t, len(frames), r.Frames())
		must.Eq(t, frames[0].At, r.From())
		must.Eq(t, frames[len(frames)-1].At, r.To())
		must.Zero(t, r.Torn())
		for range 100 {
			i := rng.IntN(len(frames))
			between := time.Duration(0)
			if i+1 < len(frames) {
				between = time.Duration(rng.Int64N(int64(frames[i+1].At.Sub(frames[i].At)))).Truncate(time.Millisecond)
			}
			for k := range 5 {
				request := fmt.Sprintf("/v1/job?id=job-%d&namespace=default", k)
				want, wanted := frames[i].Answers[request]
				got, there, err := r.Answer(frames[i].At.Add(between), request)
				must.NoError(t, err)
				must.Eq(t, wanted, there)
				must.Eq(t, string(want), string(got))
			}
			to := min(len(frames)-1, i+rng.IntN(20))
			var want [][]byte
			for _, f := range frames[i+1 : max(i+1, to+1)] {
				want = append(want, f.Events...)
			}
			got, err := r.Events(frames[i].At, frames[to].At, 1000)
			must.NoError(t, err)
			must.Eq(t, bytes.Join(want, []byte("|")), bytes.Join(got, []byte("|")))
		}
		first, _, err := r.Answer(begin.Add(-time.Hour), "/v1/job?id=job-0&namespace=default")
		must.NoError(t, err)
		must.Eq(t, string(frames[0].Answers["/v1/job?id=job-0&namespace=default"]), string(first))
	}
}

// The same frames give the same bytes.
func TestWriter_Deterministic(t *testing.T) {
	frames := random(rand.New(rand.NewPCG(1, 2)), 50)
	must.Eq(t, write(t, frames, 20), write(t, frames, 20))
}

// Similar answers take little space: a list that moves on, and numbers that change within
// an answer.
func TestWriter_Compact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var list []string
	var frames []Frame
	sum := 0
	for i := range 400 {
		list = append(list, fmt.Sprintf("%.2f", rng.Float64()))
		text := fmt.Sprintf(`{"step":%d,"time":[%s],"name":"train"}`, i, strings.Join(list[max(0, len(list)-360):], ","))
		sum += len(text)
		frames = append(frames, Frame{At: begin.Add(time.Duration(i) * time.Second), Answers: map[string][]byte{"/v1/series": []byte(text)}})
	}
	got := len(write(t, frames, 1000))
	t.Logf("%d bytes of answers in %d bytes", sum, got)
	must.Less(t, sum/50, got)
}

func TestWriter_Refuses(t *testing.T) {
	w := NewWriter(&bytes.Buffer{})
	must.NoError(t, w.Add(&Frame{At: begin}))
	must.ErrorContains(t, w.Add(&Frame{At: begin}), "is not later")
	must.ErrorContains(t, w.Add(&Frame{At: begin.Add(time.Hour), Answers: map[string][]byte{"/v1/status": make([]byte, mostAnswer+1)}}), "/v1/status has")
	many := map[string][]byte{}
	for i := range mostRequests {
		many[strconv.Itoa(i)] = nil
	}
	must.ErrorContains(t, w.Add(&Frame{At: begin.Add(time.Hour), Answers: many}), "8192 answers")
}

// A recording whose writer was killed is read up to its last whole block.
func TestOpen_Torn(t *testing.T) {
	frames := random(rand.New(rand.NewPCG(3, 4)), 30)
	text, first := write(t, frames, 10), len(write(t, frames[:10], 10))
	for cut := first + 1; cut < len(text); cut += 97 {
		r := open(t, text[:cut])
		must.Positive(t, r.Torn()+int64(r.Frames()-10))
		must.Zero(t, r.Frames()%10)
	}
	_, err := Open(bytes.NewReader(text), int64(first-1))
	must.ErrorContains(t, err, "nothing to replay")
}

func TestOpen_Wrong(t *testing.T) {
	text := write(t, random(rand.New(rand.NewPCG(5, 6)), 30), 10)
	second := int(binary.BigEndian.Uint32(text[len(magic):])) + headerSize + len(magic)
	change := func(at int, b byte) []byte {
		out := slices.Clone(text)
		out[at] = b
		return out
	}
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"empty":         {nil, `it begins with ""`},
		"other file":    {[]byte(`{"time": "2026-11-20T22:00:10Z"}`), `it begins with "{\"time`},
		"other version": {change(15, '2'), "kolo recording 2"},
		"huge block":    {change(second, 0xff), fmt.Sprintf("byte %d: the header", second)},
		"no frames":     {append([]byte(magic), make([]byte, headerSize)...), "byte 17: the header"},
		"times":         {change(second+12, 0xff), fmt.Sprintf("byte %d: the times", second)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(bytes.NewReader(tc.text), int64(len(tc.text)))
			must.ErrorContains(t, err, tc.want)
		})
	}
	r := open(t, change(second+headerSize+20, text[second+headerSize+20]^1))
	_, _, err := r.Answer(r.From(), "/v1/status")
	must.NoError(t, err)
	_, _, err = r.Answer(r.blockStart(1), "/v1/status")
	must.ErrorContains(t, err, fmt.Sprintf("byte %d: the block there", second))
}

func (r *Recording) blockStart(i int) time.Time { return time.UnixMilli(r.blocks[i].first) }

// block returns a recording of one block with these frames.
func rawBlock(t testing.TB, raw []byte, frames int, last int64) []byte {
	t.Helper()
	w := NewWriter(nil)
	var out bytes.Buffer
	w.out, w.raw, w.frames, w.first, w.last = &out, raw, frames, 0, last
	must.NoError(t, w.Flush())
	return out.Bytes()
}

// Invalid frames are errors, and reading them takes little memory.
func TestAnswer_Hostile(t *testing.T) {
	text := func(s string) []byte { return appendText(nil, []byte(s)) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	large := binary.AppendUvarint(nil, 1<<40)
	begin := join([]byte{0, 2}, []byte{0}, text("/a"), []byte{whole}, text("0123456789"))
	for name, raw := range map[string][]byte{
		"nothing":               {},
		"many changes":          join([]byte{0}, large),
		"unknown request":       {0, 1, 7, 0, 0},
		"unknown kind":          join([]byte{0, 1, 0}, text("/a"), []byte{3, 0}),
		"long answer":           join([]byte{0, 1, 0}, text("/a"), []byte{whole}, large),
		"delta of nothing":      join([]byte{0, 1, 0}, text("/a"), []byte{changed}, text("\x01\x01x"), []byte{0}),
		"delta that is long":    join(begin, []byte{1, changed}, text(string(large)), []byte{0}),
		"copy behind the end":   join(begin, []byte{1, changed}, text("\x05\x00\x10\x05"), []byte{0}),
		"copy before the start": join(begin, []byte{1, changed}, text("\x05\x00\x01\x05"), []byte{0}),
		"copy of nothing":       join(begin, []byte{1, changed}, text("\x05\x00\x00\x00"), []byte{0}),
		"delta goes on":         join(begin, []byte{1, changed}, text("\x01\x01xyz"), []byte{0}),
		"many events":           join([]byte{0, 0}, large),
		"goes on":               {0, 0, 0, 0},
		"begins late":           {1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, rawBlock(t, raw, 1, 0))
			_, _, err := r.Answer(time.UnixMilli(0), "/a")
			must.ErrorContains(t, err, "byte 17: the block there")
		})
	}
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte(`{"step":1,"loss":0.5,"name":"train"}`), []byte(`{"step":20,"loss":0.25,"name":"train"}`))
	f.Add([]byte{}, []byte("x"))
	f.Fuzz(func(t *testing.T, old, text []byte) {
		got, err := applyDelta(old, appendDelta(nil, old, text), len(text))
		must.NoError(t, err)
		must.Eq(t, string(text), string(got))
	})
}

func FuzzApplyDelta(f *testing.F) {
	f.Add([]byte("0123456789"), appendDelta(nil, []byte("0123456789"), []byte("0123x456789")))
	f.Fuzz(func(t *testing.T, old, delta []byte) {
		if got, err := applyDelta(old, delta, 1000); err == nil {
			must.LessEq(t, 1000, len(got))
		}
	})
}

// FuzzFrames reads frames of any content, at their beginning and at their end.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 'a', whole, 1, 'x', 0, 5, 1, 1, changed, 3, 1, 1, 'y', 1, 2, '{', '}'}, 2)
	f.Fuzz(func(t *testing.T, raw []byte, frames int) {
		if len(raw) > 1<<16 || frames < 1 || frames > 100 {
			return
		}
		r := open(t, rawBlock(t, raw, frames, 5))
		for _, at := range []int64{0, 5, 0} {
			_, _, _ = r.Answer(time.UnixMilli(at), "a") // that it ends is what is tested
		}
		_, _ = r.Events(time.UnixMilli(-1), time.UnixMilli(5), 10)
	})
}

// FuzzOpen reads any file.
func FuzzOpen(f *testing.F) {
	f.Add(write(f, random(rand.New(rand.NewPCG(1, 1)), 4), 2))
	f.Fuzz(func(_ *testing.T, text []byte) {
		r, err := Open(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		_, _, _ = r.Answer(r.To(), "/v1/status")
		_, _ = r.Events(r.From(), r.To(), 10)
	})
}

// Nothing is written after a block that was written in part: the file would become
// unreadable.
func TestWriter_StopsAfterAnError(t *testing.T) {
	full := &tornWriter{left: 30}
	w := NewWriter(full)
	must.NoError(t, w.Add(&Frame{At: time.UnixMilli(1), Answers: map[string][]byte{"/v1/status": []byte("{}")}}))
	must.ErrorContains(t, w.Flush(), "no space")
	full.left = 1 << 20
	must.ErrorContains(t, w.Flush(), "no space")
	must.Eq(t, 30, full.written)
}

// tornWriter has room for some more bytes.
type tornWriter struct{ left, written int }

func (w *tornWriter) Write(text []byte) (int, error) {
	n := min(w.left, len(text))
	w.left -= n
	w.written += n
	if n < len(text) {
		return n, errors.New("no space is left")
	}
	return n, nil
}

// A frame that is made to fit can be added, and loses no answer that there is room for.
func TestFrame_Fit(t *testing.T) {
	f := &Frame{At: begin, Answers: map[string][]byte{
		"/small": {1}, "/large": make([]byte, mostAnswer+1), strings.Repeat("/", mostRequest+1): {1},
		"/a": make([]byte, mostAnswer-2), "/b": make([]byte, mostAnswer-1), "/c": make([]byte, mostAnswer-3), "/d": make([]byte, mostAnswer),
	}}
	removed := f.Fit()
	must.NoError(t, NewWriter(io.Discard).Add(f))
	must.Eq(t, map[string]int{"/large": mostAnswer + 1, strings.Repeat("/", mostRequest+1): 1, "/d": mostAnswer, "/b": mostAnswer - 1}, removed)
	must.MapLen(t, 3, f.Answers)
	must.MapEmpty(t, f.Fit())
}
