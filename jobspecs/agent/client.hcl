# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A Nomad client with Kolo's task drivers: copy the programs into plugin_dir.
# Where the client has a configuration already, add the rest to it.

data_dir   = "/opt/nomad/data"
plugin_dir = "/opt/nomad/plugins"

client {
  enabled = true

  # Bounds the kill_timeout of jobs: the time in which a departing worker reaches
  # its next commit.
  max_kill_timeout = "5m"
}

# Since Nomad 1.10 a plugin is loaded only if a block names its file.
plugin "nomad-driver-horovod" {
  config {
    # Python whose Horovod the node attributes describe; tasks choose their own.
    python = "python3"

    # Paths that isolated tasks see, read-only, in addition to programs (/usr,
    # /lib, parts of /etc): a Python with Horovod, for example.
    # bind_paths = ["/opt/train/venv"]

    # Jobs with isolation = "none" see the whole client, as with raw_exec.
    allow_isolation_none = false
  }
}

# The same program under its second name is the driver "torch", with the same
# options. Leave the block out where no job uses that driver.
plugin "nomad-driver-torch" {
  config {
    # Python whose PyTorch the node attributes describe.
    python = "python3"
  }
}
