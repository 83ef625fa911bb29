// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

// BenchmarkTraffic measures the messages of one host of a ring while each rank stores a
// blob of 256 bytes and reads all others. The ranks do so all at once, or each only after
// all hosts know of the previous one.
func BenchmarkTraffic(b *testing.B) {
	for _, at := range []string{"at once", "one by one"} {
		for _, c := range []struct{ ranks, hosts int }{{64, 8}, {256, 32}, {256, 128}, {1024, 32}, {1024, 128}} {
			b.Run(fmt.Sprintf("%s/%d ranks/%d hosts", at, c.ranks, c.hosts), func(b *testing.B) {
				for b.Loop() {
					w := traffic1(b, c.ranks, c.hosts, at == "one by one")
					n := float64(c.hosts)
					b.ReportMetric(float64(w.up.messages)/n, "sent/host")
					b.ReportMetric(float64(w.down.messages)/n, "received/host")
					b.ReportMetric(float64(w.up.bytes)/n/1024, "KiB-sent/host")
					b.ReportMetric(float64(w.down.bytes)/n/1024, "KiB-received/host")
				}
			})
		}
	}
}

func traffic1(b *testing.B, ranks, hosts int, apart bool) *world {
	perHost := make([]int, hosts)
	for h := range perHost {
		perHost[h] = ranks / hosts
	}
	w := newWorld(1, perHost...)
	for _, h := range w.hosts {
		w.join(h)
	}
	must.NoError(b, w.settle())
	w.up, w.down = traffic{}, traffic{}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	for rank := range ranks {
		_, err := w.replicaOf(rank).Client(rank).Do(ended, store.Op{Kind: store.Set, Key: "default_pg/0//" + strconv.Itoa(rank), Value: make([]byte, 256)})
		must.ErrorIs(b, err, context.Canceled)
		if apart {
			must.NoError(b, w.settle())
		}
	}
	must.NoError(b, w.settle())
	for _, h := range w.hosts {
		must.Eq(b, ranks, int(w.replicas[h].Applied()))
	}
	return w
}

// The keys that process groups leave behind stay far below the bound: a rank keeps one key
// for each gloo group, with its addresses.
func TestBounds_ManyGroups(t *testing.T) {
	const ranks, groups = 64, 10000
	_, c := alone(t)
	addresses := make([]byte, 154+8*ranks)
	for group := range groups {
		do(t, c, store.Op{Kind: store.Set, Key: "kolo/1/default/" + strconv.Itoa(group) + "//cpu//0/0", Value: addresses})
	}
}
