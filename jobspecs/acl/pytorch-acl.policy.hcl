# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Lets the allocations of the job pytorch-acl record that training is complete.
# Everything else they need, Nomad gives every workload identity.
namespace "default" {
  variables {
    path "nomad/jobs/pytorch-acl" {
      capabilities = ["read", "list", "write"]
    }
    path "nomad/jobs/pytorch-acl/*" {
      capabilities = ["read", "list", "write"]
    }
  }
}
