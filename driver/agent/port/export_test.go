// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port

// MaxUnknown is maxUnknown for tests of floods.
const MaxUnknown = maxUnknown
