// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

const kalos = `job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlc1,u1,0,0,4,16,,Other,COMPLETED,2023-05-17 10:59:00+00:00,2023-05-17 10:59:00+00:00,2023-05-17 11:00:00+00:00,,,60,0.0,0.0
dlc2,u1,256,2048,24576,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,2023-05-17 12:00:10+00:00,2023-05-17 12:00:10+00:00,,3610,10.0,7393280.0
dlc3,u2,1,8,96,1000,100.0,Evaluation,CANCELLED,2023-05-17 11:02:00+00:00,,,,2023-05-17 11:03:00+00:00,60,,480.0
dlc4,u2,8,64,960,1000,100.0,SFT,CANCELLED,2023-05-17 19:01:00+08:00,2023-05-17 19:02:00+08:00,2023-05-17 19:03:40+08:00,,2023-05-17 19:03:40+08:00,160,60.0,10240.0
`

const seren = `job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
5,u3,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:54+08:00,120,32,960.0
`

// The duration of Kalos includes the time in the queue, so it is not a job's length.
func TestRead_Acme(t *testing.T) {
	for _, format := range []trace.Format{trace.Auto, trace.Acme} {
		tr, err := read(t, kalos, trace.Options{Format: format})
		must.NoError(t, err)
		must.Eq(t, []string{"dlc2", "dlc4"}, ids(tr)) // no GPUs, and never ran: left out
		gang, small := tr.Jobs[0], tr.Jobs[1]
		must.Eq(t, 2048, gang.Preferred)
		must.Eq(t, 3600, gang.Steps*gang.StepTime(2048))
		must.Eq(t, "Pretrain", gang.App)
		must.Eq(t, "u1", gang.Tenant)
		must.Eq(t, 60, small.Submit)
		must.Eq(t, 100, small.Steps*small.StepTime(64))
	}
	tr, err := read(t, seren, trace.Options{})
	must.NoError(t, err)
	must.Eq(t, 120, tr.Jobs[0].Steps)
}

const openb = `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,460,,LS,Running,1000,5000,1001
openb-pod-0001,20000,65536,0,0,,LS,Running,1010,5000,1010
openb-pod-0002,11908,47104,1,1000,,BE,Pending,1020,1100,
openb-pod-0003,88000,327680,8,1000,V100M16|V100M32,Burstable,Succeeded,1030,2040,1040
`

func TestRead_Alibaba(t *testing.T) {
	for _, format := range []trace.Format{trace.Auto, trace.Alibaba} {
		tr, err := read(t, openb, trace.Options{Format: format, Grow: 1})
		must.NoError(t, err)
		must.Eq(t, []string{"openb-pod-0000", "openb-pod-0003"}, ids(tr)) // no GPUs, and never scheduled: left out
		must.Eq(t, 3999, tr.Jobs[0].Steps)
		must.Eq(t, 1, tr.Jobs[0].Max)
		must.Eq(t, 30, tr.Jobs[1].Submit)
		must.Eq(t, 8, tr.Jobs[1].Preferred)
		must.Eq(t, 1000, tr.Jobs[1].Steps*tr.Jobs[1].StepTime(8))
	}
}

// Mistakes have their file, line, column and field.
func TestRead_GangsMistakes(t *testing.T) {
	const acme = "job_id,gpu_num,submit_time,start_time,end_time,gpu_time\n"
	const pods = "name,num_gpu,creation_time,deletion_time,scheduled_time\n"
	for text, want := range map[string]string{
		acme + "a,8,2023-05-17 11:00:00+00:00,2023-05-17 11:00:00+00:00,2023-05-17 10:00:00+00:00,1\n": "t.csv:2:57: end_time: ends 3600 s before it starts",
		acme + "a,8,yesterday,1,2,1\n":       `t.csv:2:5: submit_time: want seconds or a date such as 2020-06-09 18:41:01, got "yesterday"`,
		acme + "a,8,1,1,2,1\nb,-8,1,1,2,1\n": `t.csv:3:3: gpu_num: want a whole number from 0, got "-8"`,
		acme + "a,8,1,1,2\n":                 "t.csv:2:1: wrong number of fields",
		pods + "p,8,1,x,2\n":                 `t.csv:2:7: deletion_time: want seconds or a date such as 2020-06-09 18:41:01, got "x"`,
		pods + "p,8,1,1,2\n":                 "t.csv:2:7: deletion_time: ends 1 s before it starts",
		pods + "p,8000000,1,2,1\n":           "t.csv:2:3: num_gpu: want at most 131072, got 8000000",
	} {
		_, err := read(t, text, trace.Options{})
		must.EqError(t, err, want)
	}
	_, err := read(t, "job_id,gpu_num,gpu_time\na,1,2\n", trace.Options{})
	must.ErrorContains(t, err, "submit_time")
	tr, err := read(t, pods+"p,8,1,2,1\nq,x,1,2,1\n", trace.Options{Skip: true})
	must.NoError(t, err)
	must.Len(t, 1, tr.Skipped)
}

// In a synthetic workload of gangs, few large jobs use nearly all of the GPU time.
func TestSynthetic_Gangs(t *testing.T) {
	tr := trace.Synthetic{Jobs: 5000, GPUs: 2048, Gangs: true, Seed: 1}.Trace()
	large, work, all := 0, 0.0, 0.0
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		must.NoError(t, j.Validate())
		all += j.Steps * j.StepTime(1)
		if j.Preferred >= 64 {
			must.GreaterEq(t, 64, j.Min)
			must.LessEq(t, 512, j.Preferred)
			large++
			work += j.Steps * j.StepTime(1)
		}
	}
	must.Between(t, 0.02, float64(large)/5000, 0.04)
	must.Greater(t, 0.95, work/all)
	must.Eq(t, tr.Jobs, trace.Synthetic{Jobs: 5000, GPUs: 2048, Gangs: true, Seed: 1}.Trace().Jobs)
}
