# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A tiny GPT-2 with the Trainer of Transformers in process: one process per allocation, 1 to 4 of them, on CPUs.
#
#   nomad job run job.nomad.hcl
#   nomad job scale trainer workers 3

variable "count" {
  type        = number
  default     = 1
  description = "Allocations to start with; nomad job scale changes it later."
}

variable "python" {
  type        = string
  default     = "python3"
  description = "A Python that can import torch, transformers, accelerate and kolo."
}

variable "args" {
  type        = list(string)
  default     = []
  description = "Arguments of the script."
}

variable "isolation" {
  type        = string
  default     = "exec"
  description = "exec, or none where the client allows it."
}

job "trainer" {
  type = "batch"

  group "workers" {
    count = var.count

    # Bounds for nomad job scale, and for an autoscaler.
    scaling {
      enabled = true
      min     = 1
      max     = 4
    }

    network {
      port "kolo" {}
    }

    # Workers leave at a commit; a longer delay only keeps them from it.
    shutdown_delay = "1ms"

    service {
      name     = "trainer"
      port     = "kolo"
      provider = "nomad"
    }

    # For a host that keeps failing; a failing process is started again in place.
    restart {
      attempts = 1
      interval = "10m"
      delay    = "5s"
      mode     = "fail"
    }

    reschedule {
      attempts       = 0
      unlimited      = true
      delay          = "10s"
      delay_function = "exponential"
      max_delay      = "5m"
    }

    task "train" {
      driver = "torch"

      config {
        command   = var.python
        args      = concat(["local/train.py"], var.args)
        isolation = var.isolation
        service   = "trainer"
        min_np    = 1
        max_np    = 4

        torch {
          backend         = "gloo"
          omp_num_threads = 1
        }
      }

      template {
        destination = "local/train.py"
        data        = file("train.py")
      }

      identity {
        env  = true
        file = true
      }

      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "15m"
      }

      # Time to reach the next commit and leave without losing a step.
      kill_timeout = "30s"

      resources {
        cpu    = 1000
        memory = 1536
      }
    }
  }
}
