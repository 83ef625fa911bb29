// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func TestEncode(t *testing.T) {
	for name, tc := range map[string]struct {
		machine *Matrix
		want    string
	}{
		"HGX H100": {hgxH100(t), "8;28xNV18s"},
		"bridges":  {bridged(t), "4;NV4,4xSYS,NV4"},
		"one GPU":  {New([]GPU{{}}, nil), "1;"},
		"none":     {New(nil, nil), "0;"},
		"cube mesh": {dgx1V(t), "8;2xNV1,2xNV2,3xSYS,NV2,NV1,SYS,NV2,2xSYS,NV2,2xSYS," +
			"NV1,4xSYS,3xNV1,2xNV2,NV1,NV2"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.want, tc.machine.Encode())
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":         "",
		"no count":        ";NV1",
		"no separator":    "2",
		"negative":        "-1;",
		"too many GPUs":   "257;",
		"too few links":   "3;NV1",
		"too many links":  "2;NV1,NV1",
		"endless run":     "2;999999999999xNV1",
		"run of nothing":  "2;0xNV1",
		"no link":         "2;",
		"unknown link":    "2;XYZ",
		"link of nothing": "2;NV0",
		"signed":          "2;NV+1",
		"signed number":   "+2;NV1",
		"leading zero":    "02;NV1",
		"signed run":      "2;+1xNV1",
		"empty link":      "3;NV1,,NV1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(text)
			must.Error(t, err)
		})
	}
}

// The documentation's examples are what Encode writes and Parse reads.
func TestDocumentedExamples(t *testing.T) {
	docs, err := os.ReadFile("../../docs/reference/device.md")
	must.NoError(t, err)
	_, section, found := strings.Cut(string(docs), "### The topology attribute")
	must.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	examples := regexp.MustCompile("`([0-9]+;[^`]*)`").FindAllStringSubmatch(section, -1)
	must.Len(t, 3, examples)
	for _, e := range examples {
		m, err := Parse(e[1])
		must.NoError(t, err)
		must.Eq(t, e[1], m.Encode())
	}
}

func TestParseReadsWhatEncodeWrote(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := genMachine(rt)
		back, err := Parse(m.Encode())
		must.NoError(rt, err)
		must.Eq(rt, m.Encode(), back.Encode())
		must.Eq(rt, m.Islands(), back.Islands())
		for i := range m.Len() {
			for j := range m.Len() {
				must.Eq(rt, m.Link(i, j).String(), back.Link(i, j).String())
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"8;28xNV18s", "4;NV4,4xSYS,NV4", "1;", "0;", "2;?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Parse(s)
		if err != nil {
			return
		}
		back, err := Parse(m.Encode())
		must.NoError(t, err)
		must.Eq(t, m.Encode(), back.Encode())
	})
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	rows := []Row{{"GPU0", 0, "0"}, {"GPU1", 0, "0"}, {"GPU2", 1, "1"}, {"GPU3", -1, "1"}}
	must.NoError(t, bridged(t).WriteTable(&b, rows))
	must.Eq(t, strings.TrimLeft(`
      GPU0  GPU1  GPU2  GPU3  NUMA Affinity  Island
GPU0  X     NV4   SYS   SYS   0              0
GPU1  NV4   X     SYS   SYS   0              0
GPU2  SYS   SYS   X     NV4   1              1
GPU3  SYS   SYS   NV4   X     N/A            1
`, "\n"), b.String())
	must.Error(t, bridged(t).WriteTable(&b, nil))
}
