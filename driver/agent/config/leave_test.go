// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestTimeToLeave(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	note := func(in time.Duration) string { return now.Add(in).Format(time.RFC3339Nano) }
	cases := map[string]struct {
		note string // "-": no file
		want time.Duration
	}{
		"no note":       {"-", 25 * time.Second},
		"broken note":   {"soon", 25 * time.Second},
		"short":         {note(5 * time.Second), 4 * time.Second},
		"long":          {note(time.Minute) + "\n", 58 * time.Second},
		"already over":  {note(-time.Second), 0},
		"another clock": {now.Add(10 * time.Second).In(time.FixedZone("x", 3600)).Format(time.RFC3339Nano), 8 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Config{Training: settings.Training{LeaveTimeout: settings.Duration(25 * time.Second)}, StopFile: filepath.Join(t.TempDir(), "stop")}
			if tc.note != "-" {
				must.NoError(t, os.WriteFile(c.StopFile, []byte(tc.note), 0o644))
			}
			must.Eq(t, tc.want, c.TimeToLeave(now))
		})
	}
	must.Eq(t, 25*time.Second, (&Config{Training: settings.Training{LeaveTimeout: settings.Duration(25 * time.Second)}}).TimeToLeave(now))
}
