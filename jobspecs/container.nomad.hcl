# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Elastic PyTorch in a container image: the task's program is kolo-worker, which needs
# no task driver of Kolo. The image has PyTorch 2.1 or newer and the Python package
# kolo; kolo-worker comes by a host volume of the client:
#
#   host_volume "kolo" {
#     path      = "/opt/kolo/bin"
#     read_only = true
#   }
#
#   nomad job run -var image=example/torch@sha256:… jobspecs/container.nomad.hcl
#   nomad job scale container workers 4
#
# With a script of the image, and GPUs:
#
#   nomad job run -var image=example/torch@sha256:… -var script=/workspace/train.py \
#     -var max=8 -var gpus=1 jobspecs/container.nomad.hcl
#
# Under podman: -var driver=podman; GPUs then need devices, as in
# docs/howto/request-gpus.md. See docs/howto/train-in-a-container.md for Horovod and
# users. With Nomad Pack: packs/kolo-train.

variable "name" {
  type        = string
  default     = "container"
  description = "The job's ID and the name of its service, unlike those of any other job."
}

variable "count" {
  type        = number
  default     = 2
  description = "Allocations to start with; nomad job scale changes it later."
}

variable "max" {
  type        = number
  default     = 4
  description = "Most allocations."
}

variable "gpus" {
  type        = number
  default     = 0
  description = "GPUs of each allocation, one training process each; 0: one process on CPUs."
}

variable "memory" {
  type        = number
  default     = 1024
  description = "MiB of each allocation, for all of its processes."
}

variable "driver" {
  type        = string
  default     = "docker"
  description = "docker or podman."
}

variable "framework" {
  type        = string
  default     = "torch"
  description = "torch or horovod."
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

variable "flags" {
  type        = list(string)
  default     = []
  description = "More flags of kolo-worker, such as --torch.backend=nccl."
}

job "container" {
  id   = var.name
  name = var.name
  type = "batch"

  group "workers" {
    count = var.count

    # Bounds for nomad job scale, and for an autoscaler.
    scaling {
      enabled = true
      min     = 1
      max     = var.max
    }

    network {
      port "kolo" {}
    }

    # Nomad takes a worker out of the registry, waits this long, and stops it. Its
    # agent then serves this port until its processes have left the ring, so that
    # waiting longer only keeps them from leaving at the next commit.
    shutdown_delay = "1ms"

    # Workers find each other as instances of this service, and serve the
    # ring's status and metrics on it.
    service {
      name     = var.name
      port     = "kolo"
      provider = "nomad"
    }

    # kolo-worker restarts a failing slot in place. These blocks apply to a host
    # that keeps failing, or whose container was stopped by something other than
    # Nomad: Nomad places it again, and does not give up, while the others train on.
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
      driver = var.driver

      # A number: a name may be another user in the image than on the client.
      user = "65534"

      config {
        image        = var.image
        entrypoint   = ["/kolo/kolo-worker"]
        network_mode = "host"
        hostname     = "${NOMAD_IP_kolo}"

        # 1 GiB, for data loaders and NCCL. Docker's driver wants a number of bytes.
        shm_size = var.driver == "podman" ? "1g" : 1073741824

        # The flags are named as the fields of the task driver's config.
        args = concat([
          "--framework=${var.framework}",
          "--service=${var.name}",
          "--kill_timeout=30s",
          "--max_np=${var.max * max(var.gpus, 1)}",
        ], var.flags, ["--", var.python, var.script], var.args)
      }

      volume_mount {
        volume      = "kolo"
        destination = "/kolo"
        read_only   = true
      }

      # The first identifies the agent to Nomad's service registry, the second to
      # the agents of other workers, which get a proof of it, never the token. Files
      # are enough: what is in the environment, docker inspect shows.
      identity {
        file = true
      }

      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "15m"
      }

      # Time to reach the next commit and leave without losing a step; the same as
      # --kill_timeout. A longer one requires max_kill_timeout in the client's
      # configuration.
      kill_timeout = "30s"

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

      template {
        destination = "local/train.py"
        data        = <<-EOT
        #!/usr/bin/env python3
        """Learns y = tanh(w.x): elastic training in the fewest lines."""
        import torch
        import kolo.torch as kolo

        torch.manual_seed(1)
        w, x = torch.randn(16, 1), torch.randn(4800, 16)
        data = torch.utils.data.TensorDataset(x, torch.tanh(x @ w))
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        state = kolo.State(
            model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
            sampler=kolo.ElasticSampler(data), step=0, samples=0, epoch=0, loss=0.0)

        @kolo.elastic
        def train(state):
            ddp = kolo.wrap(state.model)
            for epoch in state.epochs(300):
                for x, y in state.batches(torch.utils.data.DataLoader(data, 12, sampler=state.sampler)):
                    state.optimizer.zero_grad()
                    loss = torch.nn.functional.mse_loss(ddp(x), y)
                    loss.backward()
                    state.optimizer.step()
                    state.step += 1
                    state.loss = loss.item()
                    if state.step % 20 == 0 and kolo.rank() == 0:
                        print(f"step {state.step} of epoch {epoch}, {kolo.size()} ranks, loss {state.loss:.4f}")
                    state.commit()

        train(state)
        EOT
      }
    }
  }
}
