// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package manpage_test

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/manpage"
)

// The two styles of help that Kolo's programs have: paragraphs indented by two, as of
// Nomad's commands, and at the margin, as of Go's flags.
func example() manpage.Page {
	return manpage.Page{
		Name: "kolo", Summary: "autoscaler for elastic training on Nomad", Version: "1.2.3", At: time.Unix(1760000000, 0),
		Parts: []manpage.Part{
			{"status", `Usage: kolo status [options]

  Shows node pools and jobs,
  with their policies.

      $ kolo status \
          -watch

      $ kolo status

Information classes:

  oracle    exact step times
  blind     nothing

Status Options:

  -watch
    Show it again
    every second.

  -json
    As JSON.
`},
			{"run", `usage: kolo run [flags] -- <command>

Trains on this machine.
.hidden files are ignored:

  kolo run -np 2 -- python train.py

flags:
  -H string
    	fixed hosts
  --service  the service's name
`},
		},
	}
}

func TestRoff(t *testing.T) {
	must.Eq(t, `.TH KOLO 1 2025-10-09 "Kolo 1.2.3" "Kolo"
.SH NAME
kolo \- autoscaler for elastic training on Nomad
.SH STATUS
.B kolo status [options]
.PP
Shows node pools and jobs,
with their policies.
.PP
.RS 4
.nf
    $ kolo status \e
        \-watch

    $ kolo status
.fi
.RE
.SS Information classes
.RS 4
.nf
oracle    exact step times
blind     nothing
.fi
.RE
.SS Status Options
.TP
.B \-watch
Show it again
every second.
.TP
.B \-json
As JSON.
.SH RUN
.B kolo run [flags] \-\- <command>
.PP
Trains on this machine.
\&.hidden files are ignored:
.PP
.RS 4
.nf
  kolo run \-np 2 \-\- python train.py
.fi
.RE
.SS flags
.TP
.B \-H string
fixed hosts
.TP
.B \-\-service
the service's name
`, string(example().Roff()))
}

func TestRoff_Mandoc(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("no mandoc here")
	}
	cmd := exec.CommandContext(t.Context(), "mandoc", "-T", "lint", "-W", "warning")
	cmd.Stdin = bytes.NewReader(example().Roff())
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
}
