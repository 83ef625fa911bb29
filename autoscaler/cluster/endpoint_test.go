// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

func TestPlace_Reserved(t *testing.T) {
	for name, tc := range map[string]struct {
		resources string
		port      int
		want      string
	}{
		"a port of the group":           {`{"Shared":{"Ports":[{"Label":"kolo","Value":25000,"HostIP":"10.0.0.7"}]}}`, 25000, "10.0.0.7:25000"},
		"a second port":                 {`{"Shared":{"Ports":[{"Value":1,"HostIP":"10.0.0.7"},{"Value":25000,"HostIP":"10.0.0.8"}]}}`, 25000, "10.0.0.8:25000"},
		"IPv6":                          {`{"Shared":{"Ports":[{"Value":25000,"HostIP":"2001:db8::1"}]}}`, 25000, "[2001:db8::1]:25000"},
		"a port of a group's network":   {`{"Shared":{"Networks":[{"IP":"10.0.0.7","DynamicPorts":[{"Value":25000}]}]}}`, 25000, "10.0.0.7:25000"},
		"a port of a task's network":    {`{"Tasks":{"t":{"Networks":[{"IP":"10.0.0.7","ReservedPorts":[{"Value":80}]}]}}}`, 80, "10.0.0.7:80"},
		"loopback of a development one": {`{"Shared":{"Ports":[{"Value":25000,"HostIP":"127.0.0.1"}]}}`, 25000, "127.0.0.1:25000"},
		"a port that it does not hold":  {`{"Shared":{"Ports":[{"Value":25000,"HostIP":"10.0.0.7"}]}}`, 4646, ""},
		"no ports":                      {`{}`, 25000, ""},
		"no resources":                  {`null`, 25000, ""},
		"port 0":                        {`{"Shared":{"Ports":[{"Value":0,"HostIP":"10.0.0.7"}]}}`, 0, ""},
		"port 65536":                    {`{"Shared":{"Ports":[{"Value":65536,"HostIP":"10.0.0.7"}]}}`, 65536, ""},
		"a cloud's metadata":            {`{"Shared":{"Ports":[{"Value":80,"HostIP":"169.254.169.254"}]}}`, 80, ""},
		"the same, mapped":              {`{"Shared":{"Ports":[{"Value":80,"HostIP":"::ffff:169.254.169.254"}]}}`, 80, ""},
		"a cloud's metadata in IPv6":    {`{"Shared":{"Ports":[{"Value":80,"HostIP":"fd00:ec2::254"}]}}`, 80, ""},
		"any address":                   {`{"Shared":{"Ports":[{"Value":80,"HostIP":"0.0.0.0"}]}}`, 80, ""},
		"multicast":                     {`{"Shared":{"Ports":[{"Value":80,"HostIP":"224.0.0.1"}]}}`, 80, ""},
		"a name":                        {`{"Shared":{"Ports":[{"Value":80,"HostIP":"metadata.google.internal"}]}}`, 80, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var a wirePlace
			must.NoError(t, json.Unmarshal([]byte(`{"AllocatedResources":`+tc.resources+`}`), &a))
			got, ok := a.reserved(tc.port)
			must.Eq(t, tc.want != "", ok)
			if ok {
				must.Eq(t, tc.want, got.String())
			}
		})
	}
}

// FuzzReadProgress: whatever a process answers at a job's address, only numbers that a
// training could report are accepted.
func FuzzReadProgress(f *testing.F) {
	f.Add([]byte(`{"job":"a","size":4,"step":12,"loss":1e300,"step_seconds":{"4":{"mean":0.3,"n":20}},"resizes":[{"from":0,"to":2,"cause":"start","gap_seconds":9,"time":100}]}`))
	f.Add([]byte(`{"size":-1}`))
	f.Add([]byte(`{"stall":{"size":2,"seconds":61,"time":1e10,"stacks":{"groups":[{"ranks":"1","count":1,"suspect":true,"state":"stopped","threads":[{"main":true,"frames":[{"function":"f","file":"a.py","line":3}]}]}]}}}`))
	f.Add([]byte(`{"step_seconds":{"x":{"n":9223372036854775807,"mean":-1e308}},"resizes":null}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readProgress(text)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Fatalf("the answer is in the error: %v", err)
			}
			return
		}
		if p.Size < 0 || p.Size > slotsLimit || len(p.StepSeconds) > stepsLimit || len(p.Resizes) > resizesLimit {
			t.Fatalf("%s was read as %+v", text, p)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
		if p.Stall != nil && p.Stall.Stacks != nil {
			if kept, err := json.Marshal(p.Stall.Stacks); err != nil || len(kept) > stacks.MaxSummary {
				t.Fatalf("%d bytes of stacks are kept: %v", len(kept), err)
			}
		}
	})
}
