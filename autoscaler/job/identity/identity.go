// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package identity defines how jobs are identified.
package identity

// JobKey identifies a job in a region.
type JobKey struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
}

// String returns namespace/id, or the id alone in the default namespace.
func (k JobKey) String() string {
	if k.Namespace == "" || k.Namespace == "default" {
		return k.ID
	}
	return k.Namespace + "/" + k.ID
}

// Namesake returns the first of keys with the same ID in another namespace, for messages
// about a job that is not found. ok is false if there is none.
func (k JobKey) Namesake(keys []JobKey) (other JobKey, ok bool) {
	for _, o := range keys {
		if o.ID == k.ID && o != k {
			return o, true
		}
	}
	return JobKey{}, false
}
