// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"errors"
	"fmt"
)

// Code is the result of an NVML function. A Code is an error, so that
// errors.Is(err, nvml.ErrGPULost) distinguishes causes.
type Code int //nolint:errname // it is NVML's number, and an error besides

// The codes that this module distinguishes; the numbers are NVML's.
const (
	ErrUninitialized    Code = 1
	ErrInvalidArgument  Code = 2
	ErrNotSupported     Code = 3
	ErrNoPermission     Code = 4
	ErrNotFound         Code = 6
	ErrDriverNotLoaded  Code = 9
	ErrTimedOut         Code = 10
	ErrLibraryNotFound  Code = 12
	ErrFunctionNotFound Code = 13
	ErrGPULost          Code = 15
	ErrResetRequired    Code = 16
	ErrBlockedByOS      Code = 17
	ErrVersionMismatch  Code = 18
	ErrGPUNotFound      Code = 28
	ErrUnknown          Code = 999
)

// ErrHung is not one of NVML's codes. It means that a call did not return in time,
// and may never return.
const ErrHung Code = -1

var codeTexts = map[Code]string{
	ErrHung:             "the call does not return",
	ErrUninitialized:    "NVML is not initialized",
	ErrInvalidArgument:  "invalid argument",
	ErrNotSupported:     "not supported",
	ErrNoPermission:     "no permission",
	ErrNotFound:         "not found",
	ErrDriverNotLoaded:  "the NVIDIA driver is not loaded",
	ErrTimedOut:         "timeout",
	11:                  "interrupt problem with the GPU",
	ErrLibraryNotFound:  "the library cannot be loaded",
	ErrFunctionNotFound: "this libnvidia-ml.so.1 does not have the function",
	14:                  "the GPU's infoROM is corrupted",
	ErrGPULost:          "the GPU has fallen off the bus",
	ErrResetRequired:    "the GPU needs a reset",
	ErrBlockedByOS:      "the operating system blocks access to the GPU",
	ErrVersionMismatch:  "libnvidia-ml.so.1 and the loaded driver are of different versions",
	ErrGPUNotFound:      "no GPU was found",
	ErrUnknown:          "internal driver error",
}

// Error returns the meaning of the code.
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
	// Code is the function's result.
	Code Code
}

// Error names the function and the cause.
func (e *Error) Error() string { return e.Op + ": " + e.Code.Error() }

// Unwrap returns the code, for errors.Is.
func (e *Error) Unwrap() error { return e.Code }

// Unsupported reports whether an error only means that a GPU or driver does not
// provide a fact.
func Unsupported(err error) bool {
	return errors.Is(err, ErrNotSupported) || errors.Is(err, ErrFunctionNotFound) ||
		errors.Is(err, ErrNoPermission) || errors.Is(err, ErrNotFound)
}

// Unavailable reports whether an error means that NVML as a whole cannot be used,
// rather than one GPU.
func Unavailable(err error) bool {
	return errors.Is(err, ErrUninitialized) || errors.Is(err, ErrDriverNotLoaded) ||
		errors.Is(err, ErrLibraryNotFound) || errors.Is(err, ErrVersionMismatch)
}

// Cause returns the text of an error without the name of the failed call. The same
// cause may make a different call fail each time.
func Cause(err error) string {
	var code Code
	if errors.As(err, &code) {
		return code.Error()
	}
	return err.Error()
}

// broken reports whether an error in the middle of a reading concerns the GPU
// itself, so that the rest of the reading would fail, too.
func broken(err error) bool {
	return Unavailable(err) || errors.Is(err, ErrGPULost) || errors.Is(err, ErrResetRequired) ||
		errors.Is(err, ErrUnknown) || errors.Is(err, ErrBlockedByOS) || errors.Is(err, ErrHung)
}
