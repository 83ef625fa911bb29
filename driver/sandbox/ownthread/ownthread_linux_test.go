// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ownthread

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// TestDo changes a property of a thread, its name.
func TestDo(t *testing.T) {
	const name = "renamed"
	named := func() string {
		buf := make([]byte, 16)
		must.NoError(t, unix.Prctl(unix.PR_GET_NAME, uintptrOf(buf), 0, 0, 0))
		return unix.ByteSliceToString(buf)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			failure := errors.New("of the function")
			must.ErrorIs(t, Do(func() error {
				must.NotEq(t, unix.Getpid(), unix.Gettid())
				must.NotEq(t, name, named(), must.Sprint("the thread was used before"))
				text := append([]byte(name), 0)
				must.NoError(t, unix.Prctl(unix.PR_SET_NAME, uintptrOf(text), 0, 0, 0))
				runtime.Gosched()
				must.Eq(t, name, named())
				return failure
			}), failure)
			must.NotEq(t, name, named())
		})
	}
	wg.Wait()
}

func uintptrOf(buf []byte) uintptr { return uintptr(unsafe.Pointer(&buf[0])) }
