// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

func logged(inJSON bool) (*Log, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return New(hclog.New(&hclog.LoggerOptions{Name: "kolo", Output: out, JSONFormat: inJSON, DisableTime: true}).Named("http"), "autoscaler one"), out
}

func TestLog_Form(t *testing.T) {
	l, out := logged(false)
	l.Write(Entry{Action: Pause, Who: "token e9ed925e (ops)", From: "10.0.0.9:4242", Namespace: "default", Job: "train"})
	l.Write(Entry{Action: Scale, Namespace: "default", Job: "train", Group: "workers", Change: "2→4", Reason: "shares free GPUs", Err: errors.New("no answer")})
	l.Refused(Entry{Action: Resume, Who: "anonymous", From: "10.0.0.9:4243"})
	must.Eq(t, `[INFO]  kolo.audit: pause: who="token e9ed925e (ops)" from=10.0.0.9:4242 namespace=default job=train result=ok
[INFO]  kolo.audit: scale: who="autoscaler one" namespace=default job=train group=workers change="2→4" reason="shares free GPUs" result=error error="no answer"
[INFO]  kolo.audit: resume: who=anonymous from=10.0.0.9:4243 result=refused
`, out.String())
	var none *Log
	none.Write(Entry{})
	none.Refused(Entry{})
}

// TestLog_OneLine logs texts of tenants that try to forge a line or to set a color.
func TestLog_OneLine(t *testing.T) {
	for name, inJSON := range map[string]bool{"text": false, "JSON": true} {
		t.Run(name, func(t *testing.T) {
			l, out := logged(inJSON)
			forged := "train\n2026-11-22T10:00:00Z [INFO]  kolo.audit: pause: who=root\r\x1b[2K\x1b[31m\u2028\u202e\x00"
			l.Write(Entry{Action: Scale, Job: forged, Reason: strings.Repeat("é", 10_000), Err: errors.New(forged)})
			must.Eq(t, 1, strings.Count(out.String(), "\n"), must.Sprint(out))
			for _, bad := range []string{"\x1b", "\r", "\u2028", "\u202e", "\x00"} {
				must.StrNotContains(t, out.String(), bad)
			}
			must.Less(t, 3000, out.Len())
			if inJSON {
				var line map[string]any
				must.NoError(t, json.Unmarshal(out.Bytes(), &line))
				must.Eq(t, "kolo.audit", line["@module"].(string))
			}
		})
	}
}

func TestLog_AFloodOfRefusalsIsCut(t *testing.T) {
	l, out := logged(false)
	now := time.Now()
	admitted := 0
	for range 1000 {
		if l.allow(now) {
			admitted++
		}
	}
	must.Eq(t, refusals, admitted)
	must.True(t, l.allow(now.Add(time.Second)))
	must.Eq(t, "", out.String())

	t.Log("the next line has how many are missing, once")
	l.Write(Entry{Action: Pause, Who: "x"})
	l.Write(Entry{Action: Resume, Who: "x"})
	must.Eq(t, `[INFO]  kolo.audit: pause: who=x refusals_left_out=990 result=ok
[INFO]  kolo.audit: resume: who=x result=ok
`, out.String())
}

// TestLogger_NoLevelTurnsRecordsOff checks each level that a configuration may set, and a
// reload.
func TestLogger_NoLevelTurnsRecordsOff(t *testing.T) {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Info, hclog.Warn, hclog.Error} {
		t.Run(level.String(), func(t *testing.T) {
			var out bytes.Buffer
			log := Logger(&hclog.LoggerOptions{Name: "kolo", Level: level, Output: &out, DisableTime: true})
			l := New(log.Named("http"), "autoscaler one")
			l.Write(Entry{Action: SetPolicy})
			log.SetLevel(hclog.Error) // a reload
			l.Write(Entry{Action: Pause})
			log.Named("http").Warn("something else")
			must.Eq(t, `[INFO]  kolo.audit: set-policy: who="autoscaler one" result=ok
[INFO]  kolo.audit: pause: who="autoscaler one" result=ok
`, out.String())
		})
	}
}
