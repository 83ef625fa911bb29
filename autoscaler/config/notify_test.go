// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestNotify(t *testing.T) {
	c, err := Parse(map[string][]byte{"kolo.hcl": []byte(`
notify "team" {
  url   = "https://hooks.example/kolo?key=x"
  on    = ["idle"]
  queue = "lab"
}
notify "chat" {
  url    = "http://chat.example"
  format = "slack"
}
`)})
	must.NoError(t, err)
	must.Eq(t, []Notify{
		{Name: "team", URL: "https://hooks.example/kolo?key=x", On: []string{"idle"}, Queue: "lab", Format: NotifyJSON},
		{Name: "chat", URL: "http://chat.example", On: []string{"complete", "failed"}, Format: NotifySlack},
	}, c.Notify)
}

func TestNotify_Mistakes(t *testing.T) {
	for text, want := range map[string]string{
		`notify "x" {}`:                                                                    `kolo.hcl:1: Missing argument: notify "x" needs a url`,
		`notify "x" { url = "hooks.example" }`:                                             `write one such as "https://hooks.example/kolo"`,
		`notify "x" { url = "https://u:p@h.example" }`:                                     "without a user",
		`notify { url = "https://h.example" }`:                                             "name",
		"notify \"x\" {\n  url = \"http://h\"\n  on = [\"done\"]\n}":                       `kolo.hcl:3: `,
		"notify \"x\" {\n  url = \"http://h\"\n  format = \"teams\"\n}":                    `"teams" is not known; write one of json, slack.`,
		"notify \"x\" {\n  url = \"http://h\"\n  secret_file = \"/nowhere/key\"\n}":        "write the path of a file that is there",
		"notify \"x\" {\n  url = \"http://h\"\n}\nnotify \"x\" {\n  url = \"http://h\"\n}": `notify "x" was already written at kolo.hcl:1`,
	} {
		_, err := Parse(map[string][]byte{"kolo.hcl": []byte(text)})
		must.ErrorContains(t, err, want, must.Sprint(text))
	}
}
