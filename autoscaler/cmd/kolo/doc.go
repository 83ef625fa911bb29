// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command kolo is the autoscaler's command line.
//
// Each command has its own file; commands.go lists them all. A command parses its
// flags, calls a package that does the work, and prints. Results go to standard
// output, progress and errors to standard error, so that the output of every
// command can be piped.
package main
