// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"errors"
	"fmt"
)

// Code is what an NVML function returned. A Code is an error, so that
// errors.Is(err, nvml.GPULost) tells causes apart.
type Code int

// The codes that the plugin acts on; the numbers are NVML's.
const (
	Uninitialized    Code = 1
	NotSupported     Code = 3
	NoPermission     Code = 4
	NotFound         Code = 6
	DriverNotLoaded  Code = 9
	TimedOut         Code = 10
	LibraryNotFound  Code = 12
	FunctionNotFound Code = 13
	GPULost          Code = 15
	ResetRequired    Code = 16
	BlockedByOS      Code = 17
	VersionMismatch  Code = 18
	GPUNotFound      Code = 28
	Unknown          Code = 999
)

// Hung is not NVML's: a call did not come back in time, and may never.
const Hung Code = -1

var codeTexts = map[Code]string{
	Hung:             "the call does not come back",
	Uninitialized:    "NVML is not initialized",
	2:                "invalid argument",
	NotSupported:     "not supported",
	NoPermission:     "no permission",
	NotFound:         "not found",
	DriverNotLoaded:  "the NVIDIA driver is not loaded",
	TimedOut:         "timeout",
	11:               "interrupt problem with the GPU",
	LibraryNotFound:  "libnvidia-ml.so.1 cannot be loaded",
	FunctionNotFound: "this libnvidia-ml.so.1 does not have the function",
	14:               "the GPU's infoROM is corrupted",
	GPULost:          "the GPU has fallen off the bus",
	ResetRequired:    "the GPU needs a reset",
	BlockedByOS:      "the operating system blocks access to the GPU",
	VersionMismatch:  "libnvidia-ml.so.1 and the loaded driver are of different versions",
	GPUNotFound:      "no GPU was found",
	Unknown:          "internal driver error",
}

// Error returns what the code means.
func (c Code) Error() string {
	if s, ok := codeTexts[c]; ok {
		return s
	}
	return fmt.Sprintf("NVML error %d", int(c))
}

// Error is a failed call.
type Error struct {
	// Op is the NVML function.
	Op string
	// Code is what it returned.
	Code Code
}

// Error names the function and the cause.
func (e *Error) Error() string { return e.Op + ": " + e.Code.Error() }

// Unwrap returns the code, for errors.Is.
func (e *Error) Unwrap() error { return e.Code }

// Unsupported tells that a GPU or driver cannot tell a fact, which is no fault
// of the GPU.
func Unsupported(err error) bool {
	return errors.Is(err, NotSupported) || errors.Is(err, FunctionNotFound) ||
		errors.Is(err, NoPermission) || errors.Is(err, NotFound)
}

// Gone tells that NVML as a whole is out of use, rather than one GPU.
func Gone(err error) bool {
	return errors.Is(err, Uninitialized) || errors.Is(err, DriverNotLoaded) ||
		errors.Is(err, LibraryNotFound) || errors.Is(err, VersionMismatch)
}

// broken tells of a code in the middle of a reading that the GPU itself is in
// trouble, so that the rest of the reading is of no use.
func broken(err error) bool {
	return Gone(err) || errors.Is(err, GPULost) || errors.Is(err, ResetRequired) ||
		errors.Is(err, Unknown) || errors.Is(err, BlockedByOS) || errors.Is(err, Hung)
}
