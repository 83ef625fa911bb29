// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package policypb holds the generated code of the protocol between kolo and policies
// that run in their own processes. See policy.proto.
package policypb

//go:generate protoc --go_out=.. --go_opt=paths=source_relative --go-grpc_out=.. --go-grpc_opt=paths=source_relative -I .. policypb/policy.proto
