// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "crypto/tls"

// tlsDefaults is what the TLS settings of the configuration are applied to.
func tlsDefaults() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
