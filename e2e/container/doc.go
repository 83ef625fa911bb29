// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package container tests kolo-worker as the program of containers: with a real Nomad with
// ACLs and two nodes, its podman and docker drivers, and an image that both engines pull
// from a registry.
//
//	test process                       node c1                     node c2
//	┌──────────────────────┐   ┌───────────────────────┐   ┌───────────────────────┐
//	│ registry ── the image│◀──│ engine ◀── driver     │   │ engine ◀── driver     │
//	│                      │   │   └─ container        │   │   └─ container        │
//	│ steers, reads records│   │        kolo-worker ◀──┼───┼──▶ kolo-worker        │
//	└──────────────────────┘   └───────────────────────┘   └───────────────────────┘
//
// Each node has an engine of its own, in its network namespace and with its own files,
// because for a container "the host's network" is the network of its engine. Containers
// run as a user other than root, without capabilities, and with a read-only root.
//
// PyTorch is in a volume (/usr of bin/torch/root) and not in the image, because the image
// would then take a minute to pull.
//
// The packs of this project run here as well, by the commands of their READMEs. They use
// nomad-pack if it is installed (make nomad-pack), and the autoscaler's image from
// bin/release (make release).
//
//	make podman torch && go test -tags e2e ./e2e/container
//
// A test whose engine is missing skips, with the reason.
package container
