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

// Notify configures a webhook, and selects the events that are sent to it.
type Notify struct {
	Name       string
	URL        string
	SecretFile string // contains the key that signs requests; "" if they are not signed
	Format     string // NotifyJSON or NotifySlack
	On         []string
	Queue      string // sends only events of jobs in this queue; "" means all
	AllowLocal bool   // permits addresses of the autoscaler's own host
}

// Formats of requests.
const (
	NotifyJSON  = "json"
	NotifySlack = "slack"
)

// Notifications lists the words that select events for a webhook.
var Notifications = []string{"complete", "failed", "suspended", "idle", "late", "stalled", "straggler", "problem", "trouble"}

func (n *Notify) settings() settings {
	return settings{
		define("url", &n.URL, "", checked("URL", hookURL), "URL that receives the events, by POST.").or("required"),
		define("on", &n.On, []string{"complete", "failed"}, list("words", `["failed", "idle"]`, notification), "Events that are sent: some of `"+strings.Join(Notifications, "`, `")+"`.").or("`complete`, `failed`"),
		define("queue", &n.Queue, "", text, "Send only events of jobs in this queue.").or("all"),
		define("format", &n.Format, NotifyJSON, oneOf(NotifyJSON, NotifySlack), "Body of the requests. `slack` is for Slack's incoming webhooks, and for others that accept its format, such as Mattermost's."),
		define("secret_file", &n.SecretFile, "", existing, "File with the key for the [signature](../howto/monitor.md#webhooks): at least 16 bytes. Without it, requests are not signed.").or("none"),
		define("allow_local", &n.AllowLocal, false, boolean, "Permit URLs on the autoscaler's own machine."),
	}
}

// hookURL accepts the URL of a webhook.
func hookURL(s string) (checked, complaint string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return "", `not a valid webhook URL; write one such as "https://hooks.example/kolo", without a user and without "#".` // a URL may hold a secret
	}
	return s, ""
}

// notification accepts a word of Notifications.
func notification(_ int, s string) (checked, complaint string) {
	if !slices.Contains(Notifications, s) {
		return "", fmt.Sprintf("%q is not a known event; write some of %s.", s, strings.Join(Notifications, ", "))
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
