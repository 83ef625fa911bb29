// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import "bufio"

// readAlibaba reads the pod lists openb_pod_list_*.csv of Alibaba's GPU traces of 2023 (Weng
// et al., ATC'23). It uses name, num_gpu, creation_time, scheduled_time and deletion_time. A
// pod that shares a GPU counts as one that has it alone, and gpu_spec is ignored.
func readAlibaba(t *Trace, r *bufio.Reader, file string, o Options) error {
	tab, err := newTable(r, file, "name", "num_gpu", "creation_time", "deletion_time", "scheduled_time")
	if err != nil {
		return err
	}
	jobs := fixed{id: "name", gpus: "num_gpu", submit: "creation_time", seconds: func() float64 {
		if !tab.filled("scheduled_time") || !tab.filled("deletion_time") {
			return 0 // never ran, or still did
		}
		return tab.between("scheduled_time", "deletion_time")
	}}
	return jobs.read(t, tab, o)
}
