// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import "bufio"

// readHelios reads the cluster_log.csv of the Helios traces (Hu et al., SC'21). It uses
// job_id, user, vc, gpu_num, submit_time and duration, and ignores other columns.
func readHelios(t *Trace, r *bufio.Reader, file string, o Options) error {
	tab, err := newTable(r, file, "job_id", "gpu_num", "submit_time", "duration")
	if err != nil {
		return err
	}
	jobs := fixed{
		id: "job_id", app: "user", tenant: "vc", gpus: "gpu_num", submit: "submit_time",
		seconds: func() float64 { return tab.float("duration", 0) },
	}
	return jobs.read(t, tab, o)
}
