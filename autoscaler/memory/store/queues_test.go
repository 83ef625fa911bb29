// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

var errCrash = errors.New("the autoscaler crashes")

// term is the term of one leader that charges what queues hold.
type term struct {
	t     *testing.T
	store *Store
	*history.History
	tree *queue.Tree
}

func begin(t *testing.T, url string, tree *queue.Tree) *term {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: url})
	must.NoError(t, err)
	s := New(client, "default", nil)
	h, lost, err := s.LoadHistory(t.Context())
	must.NoError(t, errors.Join(lost, err))
	return &term{t: t, store: s, History: h, tree: tree}
}

// charge notes at a time what queues hold from then on.
func (m *term) charge(now float64, slots []int) {
	l := m.tree.Layout()
	use := make([]ledger.Use, len(l.Nodes))
	for i, n := range slots {
		use[l.Leaf(fmt.Sprint("q", i), "")] = ledger.Use{Slots: n, Cost: float64(n)}
	}
	l.Fit(1000)
	m.Ledger("gpu").Charge(l, use, now, ledger.Longest)
}

func (m *term) save(may func() error) error {
	snap, err := Encode(m.History)
	must.NoError(m.t, err)
	must.Zero(m.t, snap.Dropped)
	return m.store.SaveHistory(m.t.Context(), snap, may)
}

// TestQueues_CrashAtEveryWrite has a leader that saves every minute and crashes before its
// nth write, for each n. The next one leads 40 seconds later. Slots that a queue holds
// throughout are counted to the second, and only once. For slots held for a shorter time,
// the account is wrong by at most what they used since the last save.
func TestQueues_CrashAtEveryWrite(t *testing.T) {
	const queues, sample, away, most = 6, 60.0, 40.0, 8
	var all []queue.Queue
	for i := range queues {
		all = append(all, queue.Queue{
			Name: fmt.Sprint("q", i), Weight: queue.WeightUnit, HalfLife: 3600, Budget: &queue.Budget{SlotHours: 1e6, Per: queue.Month},
		})
	}
	tree, problems := queue.New(all)
	must.SliceEmpty(t, problems)
	start := float64(t0.Unix())
	for _, steady := range []bool{true, false} {
		for crash := range 2*queues + 2 {
			rng := rand.New(rand.NewPCG(uint64(crash), 9))
			web := httptest.NewServer(nomadtest.New())
			leader, now, writes := begin(t, web.URL, tree), start, 0
			may := func() error {
				if writes++; writes == crash+1 {
					return errCrash
				}
				return nil
			}
			held, truth := make([]int, queues), make([]float64, queues)
			pass := func(seconds float64) {
				for i, n := range held {
					truth[i] += float64(n) * seconds / 3600
				}
				now += seconds
			}
			change := func() {
				for i := range held {
					held[i] = rng.IntN(most + 1)
				}
			}
			change()
			crashes := 0
			for k := range 24 {
				if !steady {
					change()
				}
				leader.charge(now, held)
				pass(20)
				leader.charge(now, held)
				if k%3 < 2 {
					continue
				}
				if err := leader.save(may); err != nil {
					must.ErrorIs(t, err, errCrash)
					crashes++
					pass(away)
					leader = begin(t, web.URL, tree)
					leader.charge(now, held)
				}
			}
			must.Eq(t, 1, crashes)
			must.NoError(t, leader.save(may))
			last := begin(t, web.URL, tree)
			last.charge(now, held) // again, at the same time
			for i := range queues {
				a := last.Queues["gpu"][queue.Key(fmt.Sprint("q", i))]
				got := 0.0
				if a != nil {
					got = a.Spent
				}
				switch saved := crash >= queues; { // one term of the leader, at least
				case steady && saved:
					must.InDelta(t, truth[i], got, 1e-9)
				case steady:
					must.LessEq(t, truth[i]+1e-9, got)
					must.GreaterEq(t, truth[i]-held64(held[i], sample+away)-1e-9, got)
				default:
					must.LessEq(t, held64(most, sample+away), math.Abs(got-truth[i]))
				}
			}
			web.Close()
		}
	}
}

func held64(slots int, seconds float64) float64 { return float64(slots) * seconds / 3600 }

// Accounts of queues of several pools are saved and loaded. They displace no jobs, and jobs
// do not displace them.
func TestEncode_Queues(t *testing.T) {
	h := history.New()
	for i := range 1000 {
		for _, pool := range []string{"cpu", "gpu"} {
			a := &ledger.Account{At: 1.8e9 + float64(i)/7, Rate: ledger.Rate{Used: float64(i), Borrowed: float64(i) / 3, Cost: 1}, HalfLife: 604800, Mean: math.Pi * float64(i), Slots: 1, Counts: queue.Past{Borrowed: i, Cost: 1000 * i}, Per: queue.Month, Since: 1.8e9, Spent: math.E * float64(i)}
			h.Ledger(pool)[queue.Key(fmt.Sprint("queue-", i))] = a
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 30_000 {
		h.Jobs[identity.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &history.Job{Attained: random.Float64(), Done: random.Float64(), Lost: random.Float64()}
	}
	snap, err := Encode(h)
	must.NoError(t, err)
	m, lost := decode(snap.texts)
	must.NoError(t, lost)
	must.Eq(t, h.Queues["gpu"][queue.Key("queue-7")].Mean, m.Queues["gpu"][queue.Key("queue-7")].Mean)
	must.MapLen(t, 1000, m.Queues["gpu"])
	must.MapLen(t, 1000, m.Queues["cpu"])

	h.Queues["gpu"][queue.Key("queue-7")].Mean = math.NaN()
	snap, err = Encode(h)
	must.NoError(t, err)
	m, lost = decode(snap.texts)
	must.NoError(t, lost)
	must.MapLen(t, 999, m.Queues["gpu"])
	must.MapLen(t, 1000, m.Queues["cpu"])
}
