# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# The least that the autoscaler needs, in a cluster with ACLs. Repeat
# the namespace block for each namespace whose jobs it scales; the
# variables are needed in the leader's namespace only. Adding the capability
# "tag-job-version" (of Nomad 1.11.2) or "submit-job" lets it protect parked jobs by a
# version tag (otherwise it scales them to the count they have, which holds off Nomad's
# timer, but not "nomad system gc").
namespace "default" {
  capabilities = ["list-jobs", "read-job", "read-job-scaling", "scale-job", "list-scaling-policies"]
  variables {
    path "kolo/*" {
      capabilities = ["read", "write", "list", "destroy"]
    }
  }
}

node {
  policy = "read"
}
