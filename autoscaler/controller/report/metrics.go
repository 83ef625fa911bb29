// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// Metrics for a node autoscaler.
var (
	slotsWantedDesc = prometheus.NewDesc("kolo_slots_wanted", "Slots that jobs would use if there were room, in addition to those that they have or get now.", []string{"pool", "queue", "level"}, nil)
	nodesDesc       = prometheus.NewDesc("kolo_nodes", "Nodes that take workers, by Nomad's node class.", []string{"pool", "class"}, nil)
	idleDesc        = prometheus.NewDesc("kolo_nodes_idle", "Nodes that take workers and have none.", []string{"pool", "class"}, nil)
	nodesWantedDesc = prometheus.NewDesc("kolo_nodes_wanted", "Additional nodes that jobs could use: for jobs that wait, and for jobs that would grow.", []string{"pool", "class", "state"}, nil)
)

// jobLabels name a job. Not "job": Prometheus sets that label itself, to the name
// of the scrape's job.
var jobLabels = []string{"namespace", "job_id"}

var (
	capacityDesc   = prometheus.NewDesc("kolo_pool_slots", "Slots that elastic jobs may use.", []string{"pool"}, nil)
	usedDesc       = prometheus.NewDesc("kolo_pool_slots_used", "Slots that elastic jobs hold.", []string{"pool"}, nil)
	waitingDesc    = prometheus.NewDesc("kolo_pool_jobs_waiting", "Jobs with no workers.", []string{"pool"}, nil)
	policyDesc     = prometheus.NewDesc("kolo_pool_policy", "1 for the policy in force, by its name.", []string{"pool", "policy"}, nil)
	waitsDesc      = prometheus.NewDesc("kolo_jobs_waiting", "Jobs with no workers, by queue and reason.", []string{"pool", "queue", "reason"}, nil)
	queueUsedDesc  = prometheus.NewDesc("kolo_queue_slots_used", "Slots that jobs of a queue hold.", []string{"pool", "queue"}, nil)
	borrowedDesc   = prometheus.NewDesc("kolo_queue_slots_borrowed", "Slots that jobs of a queue hold beyond its guarantee.", []string{"pool", "queue"}, nil)
	guaranteeDesc  = prometheus.NewDesc("kolo_queue_slots_guaranteed", "Slots that a queue is guaranteed.", []string{"pool", "queue"}, nil)
	decayedDesc    = prometheus.NewDesc("kolo_queue_borrowed_slot_hours", "Slot-hours that a queue borrowed, decayed by its half-life.", []string{"pool", "queue"}, nil)
	budgetDesc     = prometheus.NewDesc("kolo_queue_budget_slot_hours", "Budget of a queue for the present period.", []string{"pool", "queue"}, nil)
	spentDesc      = prometheus.NewDesc("kolo_queue_budget_used_slot_hours", "Slot-hours that count in the budget of a queue in the present period.", []string{"pool", "queue"}, nil)
	ineligibleDesc = prometheus.NewDesc("kolo_jobs_with_problems", "Jobs with a kolo block that are not scaled because of an error.", nil, nil)
	countDesc      = prometheus.NewDesc("kolo_job_workers", "Workers the job asks Nomad for.", jobLabels, nil)
	runningDesc    = prometheus.NewDesc("kolo_job_running", "Workers that exist.", jobLabels, nil)
	idleJobDesc    = prometheus.NewDesc("kolo_job_idle_seconds", "Seconds for which an idle job has not used its slots; absent for any other job.", jobLabels, nil)
	gpuDesc        = prometheus.NewDesc("kolo_gpu_info", "1 for each GPU that an allocation holds.", append([]string{"uuid", "alloc_id", "rank"}, jobLabels...), nil)
	holdsDesc      = prometheus.NewDesc("kolo_job_slots", "Slots of the workers that exist.", jobLabels, nil)
	wantDesc       = prometheus.NewDesc("kolo_job_wanted", "Workers the policy wants.", jobLabels, nil)
)

// PoolDescs describes the metrics that PoolGauges sends, and JobDescs the metrics that
// JobGauges sends.
var (
	PoolDescs = []*prometheus.Desc{capacityDesc, usedDesc, waitingDesc, policyDesc, ineligibleDesc, nodesDesc, idleDesc, nodesWantedDesc}
	JobDescs  = []*prometheus.Desc{slotsWantedDesc, waitsDesc, slotSecondsDesc, queueUsedDesc, borrowedDesc, guaranteeDesc, decayedDesc, budgetDesc, spentDesc, countDesc, runningDesc, holdsDesc, wantDesc, idleJobDesc, gpuDesc}
)

// gauges sends gauges to ch.
func gauges(ch chan<- prometheus.Metric) func(*prometheus.Desc, float64, ...string) {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
}

// PoolGauges sends the metrics of the pools of a status to ch.
func PoolGauges(ch chan<- prometheus.Metric, s *api.Status) {
	gauge := gauges(ch)
	problems := 0
	for _, x := range s.Ineligible {
		if !x.Off {
			problems++
		}
	}
	gauge(ineligibleDesc, float64(problems))
	for _, p := range s.Pools {
		gauge(capacityDesc, float64(p.Capacity), p.Name)
		gauge(usedDesc, float64(p.Used), p.Name)
		gauge(waitingDesc, float64(p.Waiting), p.Name)
		// Its parameters may name tenants, and Prometheus has no token.
		name, _, _ := strings.Cut(p.Policy, "(")
		gauge(policyDesc, 1, p.Name, name)
		for _, k := range p.Nodes {
			gauge(nodesDesc, float64(k.Nodes), p.Name, k.Class)
			gauge(idleDesc, float64(k.Idle), p.Name, k.Class)
			gauge(nodesWantedDesc, float64(k.Waiting), p.Name, k.Class, "waiting")
			gauge(nodesWantedDesc, float64(k.Growing), p.Name, k.Class, "growing")
		}
	}
}

// JobGauges sends to ch the metrics of each queue in a status and, if perJob is set, the
// metrics of each job. sees reports whether the reader may see a job.
func JobGauges(ch chan<- prometheus.Metric, s *api.Status, perJob bool, sees func(identity.JobKey) bool) {
	gauge := gauges(ch)
	for key, n := range slotsWanted(s, sees) {
		gauge(slotsWantedDesc, float64(n), key.pool, key.queue, key.level)
	}
	for key, n := range jobsWaiting(s, sees) {
		gauge(waitsDesc, float64(n), key.pool, key.queue, string(key.reason))
	}
	queueGauges(gauge, s, sees)
	if !perJob {
		return
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; sees(j.JobKey) {
			gauge(countDesc, float64(j.Count), j.Namespace, j.ID)
			gauge(runningDesc, float64(j.Running), j.Namespace, j.ID)
			gauge(holdsDesc, float64(j.Slots()), j.Namespace, j.ID)
			gauge(wantDesc, float64(j.Want), j.Namespace, j.ID)
			if j.Idle > 0 {
				gauge(idleJobDesc, j.Idle, j.Namespace, j.ID)
			}
		}
	}
}

// GPUInfo sends a metric to ch for each GPU that is held by a job that the reader may see.
// ranks has the known ranks by allocation.
func GPUInfo(ch chan<- prometheus.Metric, gpus []cluster.GPU, ranks map[string]int, sees func(identity.JobKey) bool) {
	gauge := gauges(ch)
	for _, g := range gpus {
		if !sees(g.Job) {
			continue
		}
		rank := ""
		if n, ok := ranks[g.Alloc]; ok {
			rank = strconv.Itoa(n)
		}
		gauge(gpuDesc, 1, g.ID, g.Alloc, rank, g.Job.Namespace, g.Job.ID)
	}
}

// queueGauges sends the slots that queues use now, and what they used over time. It omits
// a queue if the reader may see no jobs of its namespaces.
func queueGauges(gauge func(*prometheus.Desc, float64, ...string), s *api.Status, sees func(identity.JobKey) bool) {
	for i := range s.Pools {
		p, namespaces, guarantees := &s.Pools[i], map[string][]string{}, map[string]int{}
		for _, q := range p.Queues {
			namespaces[q.Name], guarantees[q.Name] = q.Namespaces, q.Guarantee
		}
		for _, u := range p.Use {
			of := namespaces[u.Queue]
			if of == nil {
				of = []string{"default"} // all namespaces
			}
			if !slices.ContainsFunc(of, func(ns string) bool { return sees(identity.JobKey{Namespace: strings.TrimSuffix(ns, "*")}) }) {
				continue
			}
			gauge(queueUsedDesc, float64(u.Used), p.Name, u.Queue)
			gauge(borrowedDesc, float64(u.Borrowed), p.Name, u.Queue)
			gauge(guaranteeDesc, float64(guarantees[u.Queue]), p.Name, u.Queue)
			if u.Decayed != nil {
				gauge(decayedDesc, *u.Decayed, p.Name, u.Queue)
			}
			if u.Budget != nil {
				gauge(budgetDesc, u.Budget.SlotHours, p.Name, u.Queue)
				gauge(spentDesc, u.Budget.Used, p.Name, u.Queue)
			}
		}
	}
}

type waitsKey struct {
	pool, queue string
	reason      waiting.Reason
}

// jobsWaiting counts the jobs that wait. Those that the reader may not see are counted under
// the empty name of a queue. The names of queues are the operator's, so there are few.
func jobsWaiting(s *api.Status, sees func(identity.JobKey) bool) map[waitsKey]int {
	out := map[waitsKey]int{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Waits == nil {
			continue
		}
		key := waitsKey{j.Pool, j.Waits.Queue, j.Waits.Reason}
		if !sees(j.JobKey) {
			key.queue = ""
		}
		out[key]++
	}
	return out
}

type wantedKey struct{ pool, queue, level string }

// namedQueues bounds how many queues of a pool have their own series, because jobs choose
// the names of queues.
const namedQueues = 100

// slotsWanted returns the slots that jobs lack. To keep the total right, it adds up
// queues beyond namedQueues, and queues of jobs that the reader may not see, under the
// empty name. Each pool has a series, so the total is 0 if no job lacks slots.
func slotsWanted(s *api.Status, sees func(identity.JobKey) bool) map[wantedKey]int {
	type queue struct{ pool, name string }
	slots := map[queue]int{}
	seen := make([]bool, len(s.Jobs))
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Lacks != nil && sees(j.JobKey) {
			seen[i] = true
			slots[queue{j.Pool, j.Queue}] += j.Lacks.Slots
		}
	}
	largest := make([]queue, 0, len(slots))
	for q := range slots {
		largest = append(largest, q)
	}
	slices.SortFunc(largest, func(a, b queue) int {
		return cmp.Or(cmp.Compare(slots[b], slots[a]), cmp.Compare(a.name, b.name))
	})
	named, of := map[queue]bool{}, map[string]int{}
	for _, q := range largest {
		if of[q.pool] < namedQueues {
			named[q], of[q.pool] = true, of[q.pool]+1
		}
	}
	out := map[wantedKey]int{}
	for _, p := range s.Pools {
		out[wantedKey{pool: p.Name}] = 0
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Lacks == nil {
			continue
		}
		key := wantedKey{pool: j.Pool, level: j.Lacks.Level}
		if seen[i] && named[queue{j.Pool, j.Queue}] {
			key.queue = j.Queue
		}
		out[key] += j.Lacks.Slots
	}
	return out
}
