// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

const stepTimes = `application,batch_size,gpus,step_time_s
resnet,64,1,1.0
resnet,64,2,0.55
resnet,64,3,0.4
`

const polluxJobs = `workload,name,submit_s,application,np,batch_size,max_replicas,steps
1,a,10,resnet,2,64,8,100
2,b,5,resnet,1,64,2,50
1,c,0,resnet,3,64,3,10.5
`

func read(t *testing.T, text string, o trace.Options) (*trace.Trace, error) {
	t.Helper()
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "step_times.csv"), []byte(stepTimes), 0o600))
	if o.Curves == "beside" {
		o.Curves = filepath.Join(dir, "step_times.csv")
	}
	return trace.Read(strings.NewReader(text), "t.csv", o)
}

func TestRead_Pollux(t *testing.T) {
	tr, err := read(t, polluxJobs, trace.Options{Curves: "beside", Workload: 1})
	must.NoError(t, err)
	must.Len(t, 2, tr.Jobs)
	c, a := tr.Jobs[0], tr.Jobs[1] // by arrival
	must.Eq(t, "c", c.ID)
	must.Eq(t, 10.5, c.Steps)
	must.Eq(t, 10, a.Submit)
	must.Eq(t, 3, a.Max) // no larger size was measured
	must.Eq(t, 2, a.Preferred)
	must.Eq(t, 0.55, a.StepTime(2))
	must.Eq(t, 0.4, a.StepTime(9))

	all, err := read(t, polluxJobs, trace.Options{Curves: "beside"})
	must.NoError(t, err)
	must.Eq(t, []string{"w1/c", "w2/b", "w1/a"}, ids(all))
}

func ids(t *trace.Trace) (out []string) {
	for i := range t.Jobs {
		out = append(out, t.Jobs[i].ID)
	}
	return out
}

func TestRead_Voda(t *testing.T) {
	tr, err := read(t, "job,arrival_s,model,np,min,max,epochs,t1_est_s,speedup2,speedup3\n7,20,vgg,2,1,3,50,1500,1.5,2\n", trace.Options{})
	must.NoError(t, err)
	j := tr.Jobs[0]
	must.Eq(t, "vgg-7", j.ID)
	must.Eq(t, 20, j.Submit)
	must.Eq(t, 1500, j.Steps*j.StepTime(1))
	must.Eq(t, 750, j.Steps*j.StepTime(3))
}

func TestRead_Helios(t *testing.T) {
	tr, err := read(t, `job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u1,vcA,0,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:45:36,275,0
2,u2,vcB,4,16,1,FAILED,2020-06-09 18:42:01,2020-06-09 18:42:01,2020-06-09 18:46:01,240,0
3,u3,vcB,1,4,1,CANCELLED,2020-06-09 18:43:31,,,0,0
4,u3,vcB,1,4,1,COMPLETED,2020-06-09 18:43:31,2020-06-09 18:43:31,2020-06-09 18:43:41,10,0
`, trace.Options{Alpha: 0.5, Grow: 2})
	must.NoError(t, err)
	must.Eq(t, []string{"2", "4"}, ids(tr)) // no GPUs, and never ran: left out
	j := tr.Jobs[0]
	must.Eq(t, 0, j.Submit)
	must.Eq(t, 90, tr.Jobs[1].Submit)
	must.Eq(t, "vcB", j.Tenant)
	must.Eq(t, 8, j.Max)
	must.Eq(t, 240, j.Steps*j.StepTime(4))
	must.Eq(t, 480, j.Steps*j.StepTime(1))
}

func TestRead_Philly(t *testing.T) {
	want := []string{"app_1", "app_2"}
	for name, text := range map[string]string{
		"json": `[
  {"status": "Pass", "vc": "ee", "jobid": "app_2", "user": "u",
   "submitted_time": "2017-10-07 01:12:00",
   "attempts": [
     {"start_time": "2017-10-07 01:13:00", "end_time": "2017-10-07 01:14:00", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
     {"start_time": "2017-10-07 01:15:00", "end_time": "2017-10-07 01:16:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]},
  {"status": "Killed", "vc": "ee", "jobid": "app_1", "submitted_time": "2017-10-07 01:11:00", "user": "u",
   "attempts": [{"start_time": "2017-10-07 01:13:00", "end_time": "2017-10-07 01:13:30", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
  {"status": "Killed", "vc": "ee", "jobid": "app_0", "submitted_time": "None", "user": "u", "attempts": []}
]`,
		"csv": "jobid,vc,user,status,submitted_time,start_time,end_time,gpus\n" +
			"app_2,ee,u,Pass,2017-10-07 01:12:00,2017-10-07 01:13:00,2017-10-07 01:15:00,2\n" +
			"app_1,ee,u,Killed,2017-10-07 01:11:00,2017-10-07 01:13:00,2017-10-07 01:13:30,1\n" +
			"app_0,ee,u,Killed,2017-10-07 01:11:00,,,0\n",
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := read(t, text, trace.Options{})
			must.NoError(t, err)
			must.Eq(t, want, ids(tr))
			must.Eq(t, 60, tr.Jobs[1].Submit)
			must.Eq(t, 2, tr.Jobs[1].Preferred)
			must.Eq(t, 120, tr.Jobs[1].Steps*tr.Jobs[1].StepTime(2))
		})
	}
}

func TestRead_ElasticFlow(t *testing.T) {
	for name, text := range map[string]string{
		"raw":        "job_id,submission_time,duration,num_gpu\nx,100,60,4\ny,130,10,1\n",
		"simulation": "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\nx,100,40,bert,400,64,4,60\ny,130,10,bert,-1,64,1,10\n",
		"testbed":    "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\nx,100,40,bert,400,64,4,60\ny,130,10,bert,,64,1,10\n",
		"tiresias":   "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\nx,4,100,40,bert,60,1\ny,1,130,9,bert,10,1\n",
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := read(t, text, trace.Options{})
			must.NoError(t, err)
			must.Eq(t, []string{"x", "y"}, ids(tr))
			j := tr.Jobs[0]
			must.Eq(t, 30, tr.Jobs[1].Submit)
			must.Eq(t, 60, j.Steps*j.StepTime(4))
			must.Eq(t, 0, tr.Jobs[1].Deadline)
			if name == "simulation" || name == "testbed" {
				must.Eq(t, 300, j.Deadline)
			}
		})
	}
}

func TestRead_ElasticFlowThroughputs(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "bert.csv"), []byte("global_batch_size,1,2,4\n32,8,9,10\n64,2,3.2,5\n"), 0o600))
	text := "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\nx,100,40,bert,400,64,2,60\n"
	tr, err := trace.Read(strings.NewReader(text), "t.csv", trace.Options{Curves: dir})
	must.NoError(t, err)
	j := tr.Jobs[0]
	must.Eq(t, 40, j.Steps)
	must.Eq(t, 0.5, j.StepTime(1))
	must.Eq(t, 0.2, j.StepTime(4))
	must.Between(t, 0.2, j.StepTime(3), 1/3.2)
	must.Eq(t, 4, j.Max)

	_, err = trace.Read(strings.NewReader(strings.Replace(text, ",64,", ",128,", 1)), "t.csv", trace.Options{Curves: dir})
	must.ErrorContains(t, err, "t.csv:2:10: model_name: no throughput for batch size 128")
}

// The value of a size that was not measured is blank, nan or 0: two of the traces that
// ElasticFlow's authors published have such rows.
func TestRead_ElasticFlowSizesThatWereNotMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		row       string
		most      int
		stepTimes map[int]float64
		err       string
	}{
		"blank at the end": {row: "64,2,4,8,", most: 4, stepTimes: map[int]float64{1: 0.5, 2: 0.25, 4: 0.125, 8: 0.125}},
		"nan at the end":   {row: "64,2,4,nan,NaN", most: 2, stepTimes: map[int]float64{1: 0.5, 2: 0.25, 4: 0.25}},
		"0 at the end":     {row: "64,2,4,0,0", most: 2, stepTimes: map[int]float64{2: 0.25, 8: 0.25}},
		"in between":       {row: "64,2, ,8,16", most: 8, stepTimes: map[int]float64{1: 0.5, 2: 0.25, 4: 0.125, 8: 0.0625}},
		"at the beginning": {row: "64,nan,4,8,16", most: 8, stepTimes: map[int]float64{1: 0.5, 2: 0.25}},
		"nothing measured": {row: "64,,nan,0,", err: "bert.csv: batch size 64: a curve needs at least one measured point"},
		"a mistake":        {row: "64,2,4,8,fast", err: `8: want a number from 0, got "fast"`},
		"infinite":         {row: "64,2,4,8,inf", err: `8: want a number from 0, got "inf"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must.NoError(t, os.WriteFile(filepath.Join(dir, "bert.csv"), []byte("global_batch_size,1,2,4,8\n32,,,,\n"+tc.row+"\n"), 0o600))
			tr, err := trace.Read(strings.NewReader("job_id,submission_time,num_iteration,model_name,batch_size,num_gpu,duration\nx,100,40,bert,64,2,60\n"), "t.csv", trace.Options{Curves: dir, Grow: 8})
			if tc.err != "" {
				must.ErrorContains(t, err, tc.err)
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.most, tr.Jobs[0].Max)
			for n, want := range tc.stepTimes {
				must.InDelta(t, want, tr.Jobs[0].StepTime(n), 1e-12, must.Sprint(n))
			}
		})
	}
}

const eventLog = `{"time":1000,"event":"node","node":"n1","gpus":4,"state":"up"}
{"time":1000,"event":"node","node":"n2","gpus":4,"state":"up"}
{"time":1010,"event":"job","job":"a","min":1,"max":8,"preferred":2,"tenant":"x","total_steps":500}
{"time":1011,"event":"count","job":"a","count":2,"reason":"its turn"}
{"time":1020,"event":"step-time","job":"a","workers":2,"seconds":0.5,"samples":10}
{"time":1030,"event":"step-time","job":"a","workers":2,"seconds":0.7,"samples":10}
{"time":1040,"event":"resize","job":"a","from":2,"to":8,"seconds":1.5}
{"time":1050,"event":"step-time","job":"a","workers":8,"seconds":0.2}
{"time":1060,"event":"node","node":"n2","state":"down"}
{"time":1070,"event":"job","job":"b","min":2,"max":4,"preemptible":false}
{"time":1075,"event":"step-time","job":"b","workers":4,"seconds":1}
{"time":1080,"event":"progress","job":"b","steps":30}
{"time":1090,"event":"end","job":"b","steps":42,"outcome":"complete"}
`

func TestRead_EventLog(t *testing.T) {
	tr, err := read(t, eventLog, trace.Options{})
	must.NoError(t, err)
	must.Eq(t, []string{"a", "b"}, ids(tr))
	a, b := tr.Jobs[0], tr.Jobs[1]
	must.Eq(t, 500, a.Steps) // still running: what it declared
	must.Eq(t, 42, b.Steps)
	must.True(t, a.Preemptible)
	must.False(t, b.Preemptible)
	must.Eq(t, 60, b.Submit)
	must.Eq(t, 0.6, a.StepTime(2))
	must.Eq(t, 1.2, a.StepTime(1)) // linear below the first measurement
	must.InDelta(t, math.Sqrt(0.6*0.2), a.StepTime(4), 1e-9)
	must.Eq(t, 1, b.StepTime(4))
	must.Eq(t, []trace.Node{{ID: "n1", GPUs: 4}, {ID: "n2", GPUs: 4}}, tr.Nodes)
	must.Eq(t, []trace.NodeEvent{{Time: 50, Node: "n2", Kind: trace.NodeDown}}, tr.Events)
	must.Eq(t, map[int]float64{8: 1.5}, tr.Gaps)
}

func TestWriteEvents_ReadsBack(t *testing.T) {
	count, steps := 2, 10.0
	var b strings.Builder
	must.NoError(t, trace.WriteEvents(&b, []trace.Event{
		{Time: 5, Kind: trace.EventJob, Job: "a", Min: 1, Max: 2},
		{Time: 5, Kind: trace.EventCount, Job: "a", Count: &count, Reason: "because"},
		{Time: 6, Kind: trace.EventStepTime, Job: "a", Workers: 2, Seconds: 3},
		{Time: 9, Kind: trace.EventEnd, Job: "a", Steps: &steps},
	}))
	tr, err := read(t, b.String(), trace.Options{})
	must.NoError(t, err)
	must.Eq(t, 10, tr.Jobs[0].Steps)
	must.Eq(t, 3, tr.Jobs[0].StepTime(2))
}

// TestRead_Mistakes checks that each error is reported with its position, and that skipping
// omits only the wrong entry.
func TestRead_Mistakes(t *testing.T) {
	header := "workload,name,submit_s,application,np,batch_size,max_replicas,steps\n"
	good := "1,z,10,resnet,2,64,8,100\n"
	for name, c := range map[string]struct {
		text, want string
		fatal      bool // cannot be skipped
	}{
		"not a number":      {text: header + "1,a,soon,resnet,2,64,8,100\n" + good, want: `t.csv:2:5: submit_s: want a number from 0, got "soon"`},
		"not whole":         {text: header + "1,a,1,resnet,2.5,64,8,100\n" + good, want: `t.csv:2:14: np: want a whole number from 1, got "2.5"`},
		"not a number, NaN": {text: header + "1,a,NaN,resnet,2,64,8,100\n" + good, want: `t.csv:2:5: submit_s`},
		"negative":          {text: header + "1,a,-1,resnet,2,64,8,100\n" + good, want: `t.csv:2:5: submit_s`},
		"too few fields":    {text: header + good + "1,a,1\n", want: "t.csv:3"},
		"unknown model":     {text: header + good + "1,a,1,vit,2,64,8,100\n", want: "t.csv:3:7: application: no step times for vit with batch size 64"},
		"no steps":          {text: header + good + "1,a,1,resnet,2,64,8,0\n", want: "t.csv:3: steps 0: want more than 0"},
		"no name":           {text: header + good + "1,,1,resnet,2,64,8,1\n", want: "t.csv:3:3: name: a job needs a name"},
		"bare quote":        {text: header + good + "1,a\"b,1,resnet,2,64,8,1\n", want: "t.csv:3:4: "},
		"missing column":    {text: "name,submit_s,application\n", want: "t.csv:1: np: this column is missing", fatal: true},
		"column twice":      {text: "name,submit_s,application,name\n", want: "t.csv:1:27: name: this column is listed twice", fatal: true},
		"unknown format":    {text: "when,what\n1,2\n", want: "t.csv:1:1: no known format has the columns", fatal: true},
		"empty":             {text: "", want: "t.csv: the file is empty", fatal: true},
		"no jobs":           {text: header, want: "no jobs in this trace", fatal: true},
		"same name":         {text: header + good + good, want: `two jobs are named "w1/z"`, fatal: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, c.text, trace.Options{Curves: "beside"})
			must.ErrorContains(t, err, c.want)
			tr, err := read(t, c.text, trace.Options{Curves: "beside", Skip: true})
			if c.fatal {
				must.ErrorContains(t, err, c.want)
				return
			}
			must.NoError(t, err)
			must.Eq(t, []string{"w1/z"}, ids(tr))
			must.Len(t, 1, tr.Skipped)
			must.ErrorContains(t, tr.Skipped[0], c.want)
			var placed *trace.Error
			must.True(t, errors.As(tr.Skipped[0], &placed))
			must.Positive(t, placed.Line)
		})
	}
}

func TestRead_EventLogMistakes(t *testing.T) {
	lines := strings.SplitAfter(eventLog, "\n")
	for name, c := range map[string]struct{ line, want string }{
		"not JSON":         {`{"time":1,`, "t.csv:4: the line ends within a JSON object"},
		"bad character":    {`{"time":1;}`, "t.csv:4:10: "},
		"wrong type":       {`{"time":"noon"}`, "t.csv:4:14: time"},
		"unknown key":      {`{"time":1,"event":"end","job":"a","colour":"red"}`, `t.csv:4: json: unknown field "colour"`},
		"unknown kind":     {`{"time":1,"event":"dance","job":"a"}`, `t.csv:4: event: unknown kind "dance"`},
		"unknown job":      {`{"time":1,"event":"end","job":"q"}`, `t.csv:4: job: there is no entry of kind job for "q" before`},
		"no job":           {`{"time":1,"event":"end"}`, "t.csv:4: job: an entry of kind"},
		"impossible time":  {`{"time":1,"event":"step-time","job":"a","workers":1,"seconds":-1}`, "t.csv:4: seconds: want more than 0"},
		"bounds":           {`{"time":1,"event":"job","job":"q","min":5,"max":2}`, "t.csv:4: max: 2 is below min 5"},
		"node state":       {`{"time":1,"event":"node","node":"n1","state":"gone"}`, "t.csv:4: state: want down, up or withdraw"},
		"node without gpu": {`{"time":1,"event":"node","node":"n9","state":"up"}`, "t.csv:4: gpus: want at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Join(lines[:3], "") + c.line + "\n" + strings.Join(lines[3:], "")
			_, err := read(t, text, trace.Options{Format: trace.EventLog})
			must.ErrorContains(t, err, c.want)
			tr, err := read(t, text, trace.Options{Format: trace.EventLog, Skip: true})
			must.NoError(t, err)
			must.Len(t, 2, tr.Jobs)
			must.Len(t, 1, tr.Skipped)
		})
	}
}

func TestRead_PhillyMistakes(t *testing.T) {
	text := "[\n  {\"jobid\": \"a\", \"submitted_time\": \"2017-10-07 01:11:00\", \"attempts\": [\n" +
		"    {\"start_time\": \"yesterday\", \"end_time\": \"2017-10-07 01:13:30\", \"detail\": [{\"gpus\": [\"g\"]}]}]},\n" +
		"  {\"jobid\": 7}\n]"
	_, err := read(t, text, trace.Options{})
	must.ErrorContains(t, err, `job a, attempt 1, start_time: want seconds or a date`)
	must.ErrorContains(t, err, "t.csv:2:3")
	_, err = read(t, strings.Replace(text, "yesterday", "2017-10-07 01:13:00", 1), trace.Options{})
	must.ErrorContains(t, err, "t.csv:4:3: jobid")
	_, err = read(t, `[{"jobid": }]`, trace.Options{})
	must.ErrorContains(t, err, "t.csv:1:12: ")
	_, err = read(t, "[{\"jobid\":\"a\"},\n\n {\"jobid\":\"b\", 7}]", trace.Options{})
	must.ErrorContains(t, err, "t.csv:3:16: ")
}

func TestReadNodeEvents(t *testing.T) {
	got, err := trace.ReadNodeEvents(strings.NewReader("time,node,event\n20,b,up\n10,b,down\n15,c,withdraw\n"), "e.csv")
	must.NoError(t, err)
	must.Eq(t, []trace.NodeEvent{{10, "b", trace.NodeDown}, {15, "c", trace.NodeWithdraw}, {20, "b", trace.NodeUp}}, got)
	_, err = trace.ReadNodeEvents(strings.NewReader("time,node,event\n20,b,broken\n"), "e.csv")
	must.ErrorContains(t, err, `e.csv:2:6: event: want down, up or withdraw, got "broken"`)
}
