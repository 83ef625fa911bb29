// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package debian tests the packages of a release on root file systems of Debian, with
// Debian's dpkg and systemd's own checks of units: `make e2e-packages`. The tests are
// behind the tag packages.
//
// Systemd itself does not run in these file systems. So the tests start the autoscaler
// in the way that kolo.service describes: with the unit's user, environment, command
// line and runtime directory, and without capabilities. The unit's other restrictions
// are checked only by systemd-analyze.
package debian
