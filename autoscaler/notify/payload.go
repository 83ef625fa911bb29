// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// Notification is the body of a request in the format json.
type Notification struct {
	ID   string `json:"id"`   // the same in all retries of a request
	On   string `json:"on"`   // a word of config.Notifications
	Text string `json:"text"` // one line for people
	Pool string `json:"pool,omitempty"`
	// Queue is absent for events without a job, and for jobs that the autoscaler no longer knows.
	Queue string    `json:"queue,omitempty"`
	Event api.Event `json:"event"`
}

// Kind returns the word of config.Notifications that selects an event, or "" if none does.
func Kind(e *api.Event) string {
	switch e.Type {
	case "complete", "failed", "idle", "late", "stalled", "straggler", "problem", "trouble":
		return e.Type
	case "resize":
		if e.Cause == "suspend" && e.To == 0 {
			return "suspended"
		}
	}
	return ""
}

// sentence returns an event as one line of text. It removes control characters, because users
// choose the names in it.
func sentence(kind string, e *api.Event) string {
	text := strings.TrimSpace(fmt.Sprintf("%s: %s", kind, e.Job))
	if e.Job == "" {
		text = kind
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return printable.Cell(text)
}

// slackEscapes prevents that Slack shows parts of a text as links or mentions.
// Source: https://docs.slack.dev/messaging/formatting-message-text#escaping
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// body returns the body of a request.
func (n *Notification) body(format string) ([]byte, error) {
	if format == config.NotifySlack {
		return json.Marshal(map[string]string{"text": "Kolo: " + slackEscapes.Replace(n.Text)})
	}
	return json.Marshal(n)
}

// SignatureHeader is the header with the signature of a request: t=<Unix time>,v1=<hex>.
const SignatureHeader = "Kolo-Signature"

// Sign returns the value of SignatureHeader for a body. The signature is the HMAC-SHA256 of the
// time in decimal, a dot and the body, as Stripe's webhooks have it. A receiver compares it and
// refuses old times, so that a recorded request cannot be replayed.
func Sign(secret, body []byte, at time.Time) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
