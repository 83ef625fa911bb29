// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import "fmt"

// Read sets what is given, by name, and returns a sentence for each value that is
// wrong. What is nil or an empty text is not set. prefix is put before the names
// in sentences.
func Read(list []Setting, given map[string]any, prefix string) (problems []string) {
	for _, s := range list {
		value := given[s.Name]
		if value == nil || value == "" {
			continue
		}
		if err := s.set(value); err != nil {
			problems = append(problems, fmt.Sprintf("%s%s = %s: %v", prefix, s.Name, quoted(value), err))
		}
	}
	return problems
}

// quoted writes a value as it stands in a jobspec.
func quoted(value any) string {
	if s, ok := value.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return textOf(value)
}
