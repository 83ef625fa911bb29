// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// The events of a task that starts again are passed on from the first, also when
// they are as long as those of its earlier run before the plugin looks.
func TestARunDoesNotCountTheEventsOfAnEarlierOne(t *testing.T) {
	dirs := privateDirsOf(newTaskConfig(t, isolationNone, `true`))
	must.NoError(t, dirs.create())
	note, err := dirs.write(offsetName, []byte("20"))
	must.NoError(t, err)
	must.NoError(t, dirs.createState()) // a recovered task goes on
	_, err = os.Stat(note)
	must.NoError(t, err)
	must.NoError(t, dirs.create())
	_, err = os.Stat(filepath.Join(dirs.state, offsetName))
	must.ErrorIs(t, err, os.ErrNotExist)
}
