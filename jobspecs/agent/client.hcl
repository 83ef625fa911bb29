# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A Nomad client with Kolo's task driver: copy the program into plugin_dir.
# Where there is a configuration already, the rest goes beside it.

data_dir   = "/opt/nomad/data"
plugin_dir = "/opt/nomad/plugins"

client {
  enabled = true

  # A leaving worker needs the time to reach its next commit. Jobs choose with
  # kill_timeout, up to this.
  max_kill_timeout = "5m"
}

# Since Nomad 1.10 a plugin is loaded only if a block names its file.
plugin "nomad-driver-horovod" {
  config {
    # The Python asked which Horovod this client has; tasks choose their own.
    python = "python3"

    # What isolated tasks see of the host besides its programs (/usr, /lib, parts
    # of /etc), read-only: where a Python with Horovod lies, for one.
    # bind_paths = ["/opt/train/venv"]

    # Jobs with isolation = "none" see the whole host, as with raw_exec.
    allow_isolation_none = false
  }
}
