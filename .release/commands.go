// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/release/manpage"
)

var (
	listed = regexp.MustCompile(`(?m)^ {4}(\S+) {2,}\S`)
	shared = regexp.MustCompile(`(?ms)^General Options:\n.*\z`)
)

// commands returns the parts of kolo's page: one for each command that its help lists.
// Options that many commands share appear once.
func commands(name string, help func(args ...string) (string, error)) ([]manpage.Part, error) {
	overview, err := help("-help")
	if err != nil {
		return nil, err
	}
	parts := []manpage.Part{{Heading: "commands", Help: overview}}
	general := ""
	add := func(args ...string) (string, error) {
		text, err := help(append(args, "-help")...)
		if err != nil {
			return "", err
		}
		// The library appends the commands below one to its own help.
		own, below, _ := strings.Cut(text, "\nSubcommands:\n")
		options := strings.TrimRight(shared.FindString(own), "\n")
		switch {
		case general == "":
			general = options
		case options != "" && options != general:
			return "", fmt.Errorf("the general options of %s %s are not those of the commands before it", name, strings.Join(args, " "))
		}
		help := shared.ReplaceAllString(own, "  General options, which are below, apply.\n")
		if below != "" {
			help += "\nSubcommands:\n" + below
		}
		parts = append(parts, manpage.Part{Heading: name + " " + strings.Join(args, " "), Help: help})
		return text, nil
	}
	for _, command := range under(overview, "Available commands are:") {
		text, err := add(command)
		if err != nil {
			return nil, err
		}
		for _, next := range under(text, "Subcommands:") {
			if _, err := add(command, next); err != nil {
				return nil, err
			}
		}
	}
	if general != "" {
		parts = append(parts, manpage.Part{Heading: "general options", Help: strings.TrimPrefix(general, "General Options:\n") + "\n"})
	}
	return parts, nil
}

// under returns the commands that a help lists below a heading.
func under(help, heading string) []string {
	_, list, _ := strings.Cut(help, heading+"\n")
	var names []string
	for _, m := range listed.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return slices.Compact(names)
}
