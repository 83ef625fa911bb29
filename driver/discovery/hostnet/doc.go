// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package hostnet finds out how this machine appears on its network: its
// interfaces, and whether its host name resolves to the address at which others
// reach it. Gloo listens at the address that the host name resolves to.
package hostnet
