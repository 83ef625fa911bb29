# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

app {
  url = "https://github.com/kolo-nomad/kolo"
}

pack {
  name        = "kolo"
  description = "Autoscaler for elastic deep-learning training."
  version     = "0.1.0"
}
