// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package discoverypb contains the gRPC messages of package election.
package discoverypb

// protoc is Debian's protobuf-compiler; the two plugins are built here.
//go:generate sh -c "d=$(mktemp -d) && trap 'rm -rf $d' EXIT && GOBIN=$d go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11 && GOBIN=$d go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0 && PATH=$d:$PATH protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative election.proto"
