// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package hostnet finds out how this machine is known on its network: its
// interfaces, and whether its name resolves to the address at which others
// reach it. Gloo listens where the machine's name resolves to.
package hostnet
