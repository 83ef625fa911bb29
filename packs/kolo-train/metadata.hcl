# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

app {
  url = "https://github.com/kolo-nomad/kolo"
}

pack {
  name        = "kolo-train"
  description = "Elastic PyTorch or Horovod in a container image."
  version     = "0.1.0"
}
