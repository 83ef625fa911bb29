# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# DeepSpeed with ZeRO 2, as a script for torchrun: one process per allocation, 1 to 4 of them, on
# CPUs. For each change of their number others take their places, and go on from the
# checkpoint. Requires a host volume "checkpoints" that all clients share (NFS, for one), which
# the task's user may write to.
#
#   nomad job run job.nomad.hcl
#   nomad job scale deepspeed workers 3

variable "count" {
  type        = number
  default     = 1
  description = "Allocations to start with; nomad job scale changes it later."
}

variable "python" {
  type        = string
  default     = "python3"
  description = "A Python that can import torch, deepspeed and kolo."
}

variable "args" {
  type        = list(string)
  default     = ["--checkpoint", "/checkpoints/deepspeed"]
  description = "Arguments of the script."
}

variable "isolation" {
  type        = string
  default     = "exec"
  description = "exec, or none where the client allows it."
}

job "deepspeed" {
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

    volume "checkpoints" {
      type   = "host"
      source = "checkpoints"
    }

    # Workers leave at a commit; a longer delay only keeps them from it.
    shutdown_delay = "1ms"

    service {
      name     = "deepspeed"
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
        args      = concat(["-m", "kolo.launch", "local/train.py"], var.args)
        isolation = var.isolation
        service   = "deepspeed"
        min_np    = 1
        max_np    = 4

        torch {
          omp_num_threads = 1
        }

        # How a process is asked to save its checkpoint and to end.
        checkpoint {
          signal = "SIGUSR1"
          wait   = "60s"
        }
      }

      template {
        destination = "local/train.py"
        data        = file("train.py")
      }

      # What DeepSpeed compiles at its first start.
      env {
        TORCH_EXTENSIONS_DIR = "/checkpoints/torch-extensions"
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

      # Time to save a checkpoint and leave without losing a step.
      kill_timeout = "30s"

      volume_mount {
        volume      = "checkpoints"
        destination = "/checkpoints"
      }

      resources {
        cpu    = 1000
        memory = 3072
      }
    }
  }
}
