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
