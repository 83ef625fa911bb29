// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package debian tests the packages of a release on root file systems of Debian, with
// Debian's dpkg and systemd's own checks of units: `make e2e-packages`. The tests are
// behind the tag packages.
//
// Systemd does not run there. The autoscaler is started as kolo.service says: as its
// user, with its environment, its command line and its runtime directory, without
// capabilities. What the unit forbids beyond that is checked by systemd-analyze alone.
package debian
