# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# An elastic job as the demo submits it: what a user writes for a driver, an
# autoscaler and GPUs. The demo sets the job's name.

variable "name" { type = string }
variable "driver" { type = string }
variable "queue" { type = string }
variable "gpu" { type = bool }
variable "max" { type = number }
variable "python" { type = string }
variable "script" { type = string }
variable "args" { type = list(string) }
variable "env" { type = map(string) }

job "demo" {
  type = "batch"

  group "workers" {
    # No count: the job waits until Kolo finds room for it.
    count = 0

    scaling {
      enabled = true
      min     = 0
      max     = var.max

      policy {
        kolo {
          min   = 1
          queue = var.queue
        }
      }
    }

    network {
      port "kolo" {}
    }

    shutdown_delay = "1ms"

    service {
      name     = var.name
      port     = "kolo"
      provider = "nomad"
    }

    task "train" {
      driver = var.driver

      config {
        command   = var.python
        args      = concat([var.script], var.args)
        isolation = "none"
        service   = var.name

        # Horovod's ranks talk to each other this often. The default, every
        # millisecond, would keep the cores of a small machine busy.
        horovod {
          cycle_time_ms = 10
        }
      }

      env = var.env

      identity {
        env  = true
        file = true
      }

      kill_timeout = "30s"

      resources {
        cpu    = 1000
        memory = 512

        dynamic "device" {
          for_each = var.gpu ? ["nvidia/gpu"] : []
          labels   = [device.value]
          content {
            count = 1
          }
        }
      }
    }
  }
}
