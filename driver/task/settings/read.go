// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import "github.com/kolo-nomad/kolo/driver/task/problem"

// Read sets each setting in list to its given value, and returns the problems. It
// ignores values that are nil or empty text. block is the path of the block that
// contains the settings.
func Read(list []Setting, given map[string]any, block string) (problems problem.List) {
	for _, s := range list {
		value := given[s.Name]
		if value == nil || value == "" {
			continue
		}
		if err := s.set(value); err != nil {
			problems = append(problems, problem.Of(block+"."+s.Name, value, err))
		}
	}
	return problems
}
