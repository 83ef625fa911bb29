# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Lets the allocations of the job horovod record that training is complete,
# and see whether the job was submitted again with changes or purged since, so
# that it is to be trained again. (Nomad has no right to read one job only:
# without read-job, see docs/howto/train-again.md.) Everything else they
# need, Nomad gives every workload identity.
namespace "default" {
  capabilities = ["read-job"]
  variables {
    path "nomad/jobs/horovod" {
      capabilities = ["read", "list", "write"]
    }
    path "nomad/jobs/horovod/*" {
      capabilities = ["read", "list", "write"]
    }
  }
}
