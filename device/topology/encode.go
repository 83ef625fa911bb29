// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// maxGPUs bounds the matrix that Parse accepts, so that a short text cannot
// allocate a large one. The largest node has 16 GPUs of up to 7 MIG instances.
const maxGPUs = 256

// Encode returns the matrix on one short line:
//
//	<number of GPUs>;<link>,<link>,…
//
// The links are listed for the pairs 0-1, 0-2, … 0-n, 1-2, … (the upper triangle,
// row by row). A link that occurs k times in a row is written once as <k>x<link>.
// An HGX H100 is "8;28xNV18s".
func (m *Matrix) Encode() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(m.n))
	b.WriteByte(';')
	last, run, first := "", 0, true
	flush := func() {
		if run == 0 {
			return
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if run > 1 {
			b.WriteString(strconv.Itoa(run))
			b.WriteByte('x')
		}
		b.WriteString(last)
	}
	for i := range m.n {
		for j := i + 1; j < m.n; j++ {
			s := m.Link(i, j).String()
			if s == last {
				run++
				continue
			}
			flush()
			last, run = s, 1
		}
	}
	flush()
	return b.String()
}

// Parse reads the output of [Matrix.Encode]. The matrix has only the facts that the
// text contains: no bandwidth and no peer access.
func Parse(s string) (*Matrix, error) {
	head, list, found := strings.Cut(s, ";")
	n, err := count(head)
	if !found || err != nil || n < 0 || n > maxGPUs {
		return nil, fmt.Errorf("topology %q: want <number of GPUs up to %d>;<links>", s, maxGPUs)
	}
	want := n * (n - 1) / 2
	links := make([]Link, 0, want)
	if list != "" {
		for _, item := range strings.Split(list, ",") {
			times := 1
			if k, rest, repeated := strings.Cut(item, "x"); repeated {
				if times, err = count(k); err != nil || times < 1 {
					return nil, fmt.Errorf("topology %q: %q repeats no number of times", s, item)
				}
				item = rest
			}
			l, err := parseLink(item)
			if err != nil {
				return nil, fmt.Errorf("topology %q: %w", s, err)
			}
			if times > want-len(links) {
				return nil, fmt.Errorf("topology %q: more than the %d links of %d GPUs", s, want, n)
			}
			for range times {
				links = append(links, l)
			}
		}
	}
	if len(links) != want {
		return nil, fmt.Errorf("topology %q: %d links, but %d GPUs have %d", s, len(links), n, want)
	}
	m := &Matrix{n: n, links: make([]Link, n*n), egress: make([]int, n)}
	for i := range n {
		for j := i + 1; j < n; j++ {
			m.set(i, j, links[0])
			links = links[1:]
		}
	}
	m.findIslands()
	return m, nil
}

// count parses a whole number in Encode's format.
func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && strconv.Itoa(n) != s {
		err = strconv.ErrSyntax
	}
	return n, err
}
