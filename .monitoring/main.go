// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
)

// dashboardFile is the dashboard, as seen from this directory.
const dashboardFile = "../docs/monitoring/dashboard.json"

func main() {
	text, err := dashboardJSON()
	if err == nil {
		err = os.WriteFile(dashboardFile, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}
