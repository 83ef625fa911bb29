# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A Nomad client with Kolo's GPU device plugin in place of nomad-device-nvidia:
# copy the program into plugin_dir and remove the other one. All options have
# defaults.

data_dir   = "/opt/nomad/data"
plugin_dir = "/opt/nomad/plugins"

client {
  enabled = true
}

# Since Nomad 1.10 a plugin is loaded only if a block names its file.
plugin "nomad-device-nvtopo" {
  config {
    # One group of GPUs for each NVLink island, so that count = 4 is four of
    # one island. The default, "node", keeps one group for each model.
    group_by = "nvlink"

    # UUIDs of GPUs that Nomad does not get.
    ignored_gpu_ids = []

    # How often the machine is read. Health is checked more often.
    fingerprint_period = "1m"

    # Prometheus metrics at /metrics: Nomad does not export the statistics of
    # device plugins.
    prometheus_address = "127.0.0.1:9835"

    health {
      interval      = "5s"
      grace         = "10s"
      healthy_after = "30s"
      xid_recovery  = "10m"
    }
  }
}
