// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// Tagged reports whether any version of the job has a tag. Nomad does not
// garbage-collect such a job.
func (c *Cluster) Tagged(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tags[id]) > 0
}

// versionsKept is how many versions of a job without a tag Nomad keeps by default.
const versionsKept = 6

// versions returns the versions that are kept, newest first.
func (c *Cluster) versions(j *Job) any {
	numbers := slices.Collect(maps.Keys(c.tags[j.ID]))
	for n := range min(versionsKept, j.version+1) {
		numbers = append(numbers, j.version-n)
	}
	slices.Sort(numbers)
	var out []any
	for _, n := range slices.Backward(slices.Compact(numbers)) {
		v := map[string]any{"ID": j.ID, "Version": n}
		if tag := c.tags[j.ID][n]; tag != "" {
			v["VersionTag"] = map[string]any{"Name": tag}
		}
		out = append(out, v)
	}
	return map[string]any{"Versions": out}
}

// putTag tags a version, if no other version has the tag, or removes the tag from the
// newest version that has it.
func (c *Cluster) putTag(w http.ResponseWriter, r *http.Request) {
	id, name := r.PathValue("id"), r.PathValue("tag")
	if strings.Contains(id, "/") { // Nomad splits the path after it has unescaped it
		http.Error(w, "invalid job tag endpoint", http.StatusNotFound)
		return
	}
	var req api.TagVersionRequest
	if r.Method != http.MethodDelete {
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var have []uint64
	for n, tag := range c.tags[id] {
		if tag == name {
			have = append(have, n)
		}
	}
	switch {
	case r.Method == http.MethodDelete && len(have) == 0:
		http.Error(w, fmt.Sprintf("tag %q not found on job %q", name, id), http.StatusInternalServerError)
		return
	case r.Method == http.MethodDelete:
		delete(c.tags[id], slices.Max(have))
	case slices.ContainsFunc(have, func(n uint64) bool { return n != req.Version }):
		http.Error(w, fmt.Sprintf("tag %q already exists on a different version of job %q", name, id), http.StatusInternalServerError)
		return
	default:
		if c.tags[id] == nil {
			c.tags[id] = map[uint64]string{}
		}
		c.tags[id][req.Version] = name
	}
	_, _ = w.Write([]byte("{}")) // a reader that went away
}
