// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package workerflags

import (
	"fmt"
	"io"
)

const usage = `kolo-worker runs elastic training as the program of a Nomad task, in an image or
without one.

usage: kolo-worker [flags] -- <command> [arguments]

  kolo-worker --framework=torch --max_np=8 -- python3 train.py

It is configured by Nomad's variables, the task's secrets directory and these flags,
which are named as the fields of the task driver's config.

  --framework     torch or horovod (required)
  --kill_timeout  the task's kill_timeout (default 5s, which is Nomad's)
`

// Usage prints the flags.
func Usage(out io.Writer, frameworks []Framework) {
	_, _ = fmt.Fprint(out, usage)
	printOptions(out, commonOptions())
	for _, f := range frameworks {
		_, _ = fmt.Fprintf(out, "\nwith --framework=%s:\n", f.Name())
		printOptions(out, options(f))
	}
}

func printOptions(out io.Writer, list []option) {
	for _, s := range list {
		_, _ = fmt.Fprintf(out, "  --%s\n        %s", s.name, s.Doc)
		if s.Default != "" {
			_, _ = fmt.Fprintf(out, " (default: %s)", s.Default)
		}
		_, _ = fmt.Fprintln(out)
	}
}
