// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

var update = flag.Bool("update", false, "write the reference of settings into docs")

// marker stands before the reference in a page of docs.
const marker = "<!-- settings: autoscaler -->\n"

// reference is a table of all settings.
func reference() string {
	var out strings.Builder
	out.WriteString("| block | key | default | value | description |\n|---|---|---|---|---|\n")
	c := Default()
	for _, b := range []struct {
		name string
		settings
	}{
		{"", c.settings()}, {"`nomad`", c.Nomad.settings()}, {"`http`", c.HTTP.settings()}, {"`http` › `tls`", c.HTTP.TLS.settings()},
		{"`leader`", c.Leader.settings()}, {"`planner`", c.Planner.settings()}, {"`telemetry`", c.Telemetry.settings()}, {"`usage`", c.Usage.settings()}, {"`notify`", new(Notify).settings()},
		{"`pool`", new(Pool).settings()}, {"`pool` › `queue`", new(Queue).settings()},
		{"… `queue` › `per_namespace`", capSettings(new(queue.Caps))},
		{"… `queue` › `budget`", budgetSettings(new(queue.Budget), new(string), new(string))},
		{"`pool` › `reservation`", reservationSettings(new(queue.Reservation), new(time.Time), new(time.Time))},
		{"`pool` › `topology`", new(Pool).topologySettings(new([]string))},
		{"`pool` › `spares`", new(Pool).sparesSettings()},
	} {
		for _, s := range b.settings {
			if s.doc != "" {
				fmt.Fprintf(&out, "| %s | `%s` | %s | %s | %s |\n", b.name, s.name, s.fallback, s.format, s.doc)
			}
		}
	}
	return out.String()
}

// TestReference compares the settings with the table in docs. With -update it
// writes the table.
func TestReference(t *testing.T) {
	table := regexp.MustCompile(`(?m)^` + marker + `\n*((?:\|.*\n)*)`)
	found := 0
	must.NoError(t, filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		must.NoError(t, err)
		at := table.FindSubmatchIndex(text)
		if at == nil {
			return nil
		}
		found++
		if *update {
			text = append(append(text[:at[2]:at[2]], reference()...), text[at[3]:]...)
			return os.WriteFile(path, text, 0o600)
		}
		must.Eq(t, reference(), string(text[at[2]:at[3]]), must.Sprintf("%s: go test ./autoscaler/config -run Reference -update", path))
		return nil
	}))
	must.Eq(t, 1, found, must.Sprint("pages with "+marker))
}

// For a setting without a default, the reference states what applies instead.
func TestReference_NamesEveryDefault(t *testing.T) {
	for line := range strings.Lines(reference()) {
		must.StrNotContains(t, strings.TrimPrefix(line, "|  |"), "|  |")
	}
}
