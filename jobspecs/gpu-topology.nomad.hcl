# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Four GPUs that NVLink joins, of one island each time: for clients whose
# nomad-device-nvtopo has group_by = "nvlink" (agent/gpu-topology.hcl). It prints
# the GPUs it was given. (Validated, but not yet run on real GPUs.)
#
#   nomad job run jobspecs/gpu-topology.nomad.hcl
#   nomad job run -var gpus=2 -var memory="40 GiB" jobspecs/gpu-topology.nomad.hcl

variable "gpus" {
  type        = number
  default     = 4
  description = "GPUs of each allocation, all of one island."
}

variable "memory" {
  type        = string
  default     = "16 GiB"
  description = "Least memory of each GPU."
}

job "gpu-topology" {
  type = "batch"

  group "workers" {
    count = 2

    task "show" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo GPUs: $NVIDIA_VISIBLE_DEVICES"]
      }

      resources {
        cpu    = 100
        memory = 64

        device "nvidia/gpu" {
          count = var.gpus

          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = var.memory
          }

          # Only an island that is large enough, also on clients that have one
          # group for all GPUs.
          constraint {
            attribute = "${device.attr.island_size}"
            operator  = ">="
            value     = var.gpus
          }

          # Rather GPUs that reach each other through NVSwitch.
          affinity {
            attribute = "${device.attr.nvswitch}"
            value     = "true"
            weight    = 50
          }
        }
      }
    }
  }
}
