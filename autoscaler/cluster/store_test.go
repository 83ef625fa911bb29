// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// Jobs come and go by the thousand, each with a name of its own.
func TestStore_ForgetsWords(t *testing.T) {
	s := newStore()
	for i := range 20_000 {
		s.putAlloc(&wireAlloc{
			ID: strconv.Itoa(i), Namespace: "default", JobID: fmt.Sprintf("etl/dispatch-%d", i), TaskGroup: "g", NodeID: "n",
			ModifyIndex: uint64(i + 1), ClientStatus: api.AllocClientStatusComplete,
		})
		if i%10 == 9 { // a list that holds the last ten
			listed := map[string]bool{}
			for k := range 10 {
				listed[strconv.Itoa(i-k)] = true
			}
			prune(s.allocs, listed, uint64(i+1), func(a *alloc) uint64 { return a.index })
		}
	}
	must.MapLen(t, 10, s.allocs)
	must.LessEq(t, leastWords+5, len(s.words))
	for _, a := range s.allocs {
		must.Eq(t, a.job.ID, s.word(a.job.ID))
	}
}

// The list of one job's allocations lacks their resources. The answer that has them comes
// at the same index.
func TestStore_LearnsWhatAnAllocationHolds(t *testing.T) {
	s := newStore()
	bare, whole := wireAlloc{ID: "a", ModifyIndex: 7, DesiredStatus: "run"}, wireAlloc{ID: "a", ModifyIndex: 7, DesiredStatus: "run"}
	must.NoError(t, json.Unmarshal([]byte(`{"AllocatedResources":{"Tasks":{"t":{"Cpu":{"CpuShares":500},"Memory":{"MemoryMB":64}}}}}`), &whole))
	must.True(t, s.putAlloc(&bare))
	must.True(t, s.putAlloc(&whole))
	must.Eq(t, 500, s.allocs["a"].cpu)
	must.False(t, s.putAlloc(&whole))
	must.False(t, s.putAlloc(&bare))
	bare.ModifyIndex, bare.DesiredStatus = 8, "stop"
	must.True(t, s.putAlloc(&bare))
	must.True(t, s.allocs["a"].ending)
	must.Eq(t, 500, s.allocs["a"].cpu, must.Sprint("it holds what it held"))
}
