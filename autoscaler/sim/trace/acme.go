// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import "bufio"

// readAcme reads trace_kalos.csv and trace_seren.csv of the Acme traces (Hu et al., NSDI'24),
// whose largest jobs train language models on thousands of GPUs. It uses job_id, user, type,
// gpu_num, submit_time, and start_time and end_time; the duration of Kalos includes the time
// in the queue.
func readAcme(t *Trace, r *bufio.Reader, file string, o Options) error {
	tab, err := newTable(r, file, "job_id", "gpu_num", "submit_time", "start_time", "end_time")
	if err != nil {
		return err
	}
	jobs := fixed{id: "job_id", app: "type", tenant: "user", gpus: "gpu_num", submit: "submit_time", seconds: func() float64 {
		if !tab.filled("start_time") || !tab.filled("end_time") {
			return 0 // never ran, or still did
		}
		return tab.between("start_time", "end_time")
	}}
	return jobs.read(t, tab, o)
}
