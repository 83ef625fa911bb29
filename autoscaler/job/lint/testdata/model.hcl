# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A job in which nothing is found, for tests that change one thing in it.

variable "count" {
  type        = number
  default     = 2
  description = "Allocations to start with; nomad job scale changes it later."
}

variable "image" {
  type        = string
  default     = "kolo-torch:1"
  description = "An image with PyTorch and the Python package kolo; name it by its digest."
}

variable "python" {
  type        = string
  default     = "python3"
  description = "The image's Python."
}

variable "script" {
  type        = string
  default     = "/local/train.py"
  description = "The training script: a path in the image, or the one below."
}

variable "args" {
  type        = list(string)
  default     = []
  description = "Arguments of the script."
}

job "torch-docker" {
  type = "batch"

  group "workers" {
    count = var.count

    scaling {
      enabled = true
      min     = 1
      max     = 4
    }

    network {
      port "kolo" {}
    }

    shutdown_delay = "1ms"

    service {
      name     = "torch-docker"
      port     = "kolo"
      provider = "nomad"
    }

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

    volume "kolo" {
      type      = "host"
      source    = "kolo"
      read_only = true
    }

    task "train" {
      driver = "docker"

      user = "65534"

      config {
        image        = var.image
        entrypoint   = ["/kolo/kolo-worker"]
        network_mode = "host"
        hostname     = "${NOMAD_IP_kolo}"
        shm_size     = 1073741824 # 1 GiB, for data loaders and NCCL

        args = concat([
          "--framework=torch",
          "--service=torch-docker",
          "--kill_timeout=30s",
          "--min_np=1",
          "--max_np=4",
          "--torch.backend=gloo",
          "--", var.python, var.script,
        ], var.args)
      }

      volume_mount {
        volume      = "kolo"
        destination = "/kolo"
        read_only   = true
      }

      identity {
        file = true
      }

      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "15m"
      }

      kill_timeout = "30s"

      resources {
        cpu    = 1000
        memory = 1024
      }
    }
  }
}
