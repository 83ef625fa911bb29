// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package stacks describes what the processes of a training job do at one moment, and
// finds the processes that differ from the others.
//
// Training processes do the same at the same time. If a job hangs, most ranks wait in the
// same collective, with the same stack. The rank that they wait for has another one. So
// Groups puts ranks with equal stacks together: the largest group is the healthy one, and
// all others are suspects. This is the method of ByteRobust (SOSP'25).
//
// Every text in this package was written by a task, which may be hostile. The parsers and
// Decode bound the number and length of all parts and replace characters that are not
// printable.
package stacks
