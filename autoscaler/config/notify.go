// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Notify is a webhook that is called for some events.
type Notify struct {
	Name       string
	URL        string
	SecretFile string // with the key that signs requests, "" is none
	Format     string // NotifyJSON or NotifySlack
	On         []string
	Queue      string // only events of jobs in this queue, "" is all
	AllowLocal bool   // addresses of the autoscaler's own host
}

// Formats of requests.
const (
	NotifyJSON  = "json"
	NotifySlack = "slack"
)

// Notifications are what a webhook can be told.
var Notifications = []string{"complete", "failed", "suspended", "idle", "problem", "trouble"}

func (n *Notify) settings() settings {
	return settings{
		define("url", &n.URL, "", checked("URL", hookURL), "Where events are sent, with POST.").or("required"),
		define("on", &n.On, []string{"complete", "failed"}, list("words", `["failed", "idle"]`, notification), "What is sent: some of `"+strings.Join(Notifications, "`, `")+"`.").or("`complete`, `failed`"),
		define("queue", &n.Queue, "", text, "Only events of jobs in this queue.").or("all"),
		define("format", &n.Format, NotifyJSON, oneOf(NotifyJSON, NotifySlack), "`slack` is understood by Slack, Mattermost and others that accept its incoming webhooks."),
		define("secret_file", &n.SecretFile, "", existing, "File with the key of the [signature](../howto/monitor.md#webhooks), at least 16 bytes.").or("none"),
		define("allow_local", &n.AllowLocal, false, boolean, "Also sends to addresses of the autoscaler's own machine."),
	}
}

// hookURL accepts the URL of a webhook.
func hookURL(s string) (checked, complaint string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return "", `it is not the URL of a webhook; write one such as "https://hooks.example/kolo", without a user and without "#".` // a URL may hold a secret
	}
	return s, ""
}

// notification accepts a word of Notifications.
func notification(_ int, s string) (checked, complaint string) {
	if !slices.Contains(Notifications, s) {
		return "", fmt.Sprintf("%q is not known; write some of %s.", s, strings.Join(Notifications, ", "))
	}
	return s, ""
}

// notify reads a notify block.
func (c *Config) notify(b *hcl.Block) hcl.Diagnostics {
	n := Notify{Name: b.Labels[0]}
	n.settings().reset()
	_, diags := n.settings().read(b.Body)
	if !diags.HasErrors() && n.URL == "" {
		diags = append(diags, wrong(b.DefRange, "Missing argument", fmt.Sprintf(`notify %q needs a url; write url = "https://…".`, n.Name)))
	}
	c.Notify = append(c.Notify, n)
	return diags
}
