// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"
)

var (
	optionRow  = regexp.MustCompile("(?m)^\\| (`-[^|]*) \\|")
	optionName = regexp.MustCompile("`(-[a-z-]+)")
)

// The reference lists each command of kolo, and each option under its command.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/cli.md")
	must.NoError(t, err)
	all := commands(meta{UI: cli.NewMockUi()})
	sections := strings.Split(string(text), "\n### kolo ")[1:]
	must.Greater(t, 5, len(sections))
	for _, section := range sections {
		section, _, _ = strings.Cut(section, "\n##")
		name, rest, _ := strings.Cut(section, "\n")
		var documented []string
		for _, row := range optionRow.FindAllStringSubmatch(rest, -1) {
			for _, option := range optionName.FindAllStringSubmatch(row[1], -1) {
				documented = append(documented, option[1])
			}
		}
		taken := map[string]bool{}
		for words, create := range all {
			if words != name && !strings.HasPrefix(words, name+" ") {
				continue
			}
			command, err := create()
			must.NoError(t, err)
			for flag := range command.(cli.CommandAutocomplete).AutocompleteFlags() {
				taken[flag] = true
			}
		}
		must.MapNotEmpty(t, taken, must.Sprintf("there is no command %q", name))
		for _, option := range documented {
			must.True(t, taken[option], must.Sprintf("kolo %s has no option %s", name, option))
		}
		if create, ok := all[name]; ok && name != "topology" { // which stands for its subcommands
			command, err := create()
			must.NoError(t, err)
			common := (&apiCommand{}).AutocompleteFlags()
			for flag := range command.(cli.CommandAutocomplete).AutocompleteFlags() {
				_, everywhere := common[flag]
				must.True(t, everywhere || slices.Contains(documented, flag), must.Sprintf("docs/reference/cli.md does not have %s of kolo %s", flag, name))
			}
		}
	}
	for words := range all {
		if words != "policy" { // prints its subcommands
			must.StrContains(t, string(text), "| `kolo "+words)
		}
	}
}
