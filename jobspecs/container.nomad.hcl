# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Elastic training in a container image: from image, command, workers and GPUs to the
# job, under docker. kolo-worker comes by the host volume "kolo" of the clients:
# docs/howto/train-in-a-container.md. With Nomad Pack: packs/kolo-train.
#
#   nomad job run -var image=example/torch@sha256:… -var 'command=["python3", "/workspace/train.py"]' \
#     -var workers=2 -var max_workers=8 -var gpus=1 jobspecs/container.nomad.hcl

variable "image" {
  type        = string
  default     = "kolo-torch:1"
  description = "Image with PyTorch or Horovod; name it by its digest (…@sha256:…)."
}

variable "command" {
  type        = list(string)
  default     = ["python3", "/workspace/train.py"]
  description = "Program that trains, with its arguments, as it is in the image."
}

variable "workers" {
  type        = number
  default     = 1
  description = "Allocations to start with; nomad job scale, or the autoscaler, changes it later."
}

variable "max_workers" {
  type        = number
  default     = 4
  description = "Most allocations."
}

variable "gpus" {
  type        = number
  default     = 0
  description = "GPUs of each allocation, one training process each; 0: one process on CPUs."
}

variable "name" {
  type        = string
  default     = "train"
  description = "Name of the service, unlike that of any other job."
}

variable "framework" {
  type        = string
  default     = "torch"
  description = "torch or horovod."
}

variable "flags" {
  type        = list(string)
  default     = []
  description = "More flags of kolo-worker, such as --torch.backend=nccl."
}

variable "memory" {
  type        = number
  default     = 4096
  description = "MiB of each allocation, for all of its processes."
}

job "container" {
  name = var.name
  type = "batch"

  group "workers" {
    count = var.workers

    scaling {
      enabled = true
      min     = 1
      max     = var.max_workers
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
      driver       = "docker"
      user         = "65534"
      kill_timeout = "30s"

      config {
        image        = var.image
        entrypoint   = ["/kolo/kolo-worker"]
        network_mode = "host"
        hostname     = "${NOMAD_IP_kolo}"
        shm_size     = 1073741824

        args = concat([
          "--framework=${var.framework}",
          "--service=${var.name}",
          "--kill_timeout=30s",
          "--max_np=${var.max_workers * max(var.gpus, 1)}",
        ], var.flags, ["--"], var.command)
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

      resources {
        cpu    = 1000
        memory = var.memory

        dynamic "device" {
          for_each = var.gpus > 0 ? ["nvidia/gpu"] : []
          labels   = [device.value]
          content {
            count = var.gpus
          }
        }
      }
    }
  }
}
