# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Elastic PyTorch with Horovod: one training process per allocation, 1 to 4 of them,
# on CPUs. -var slots=2 trains with two processes per allocation, -var gpus=2 with two
# GPUs and a process for each. (With GPUs validated, but not yet run on real ones.)
#
#   nomad job run jobspecs/horovod.nomad.hcl
#   nomad job scale horovod workers 4
#
# With ACLs, one policy that is bound to the job lets its workers record that training
# is complete, so that no later allocation trains again:
#
#   nomad acl policy apply -namespace default -job horovod horovod jobspecs/acl/horovod.policy.hcl

variable "name" {
  type        = string
  default     = "horovod"
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

variable "slots" {
  type        = number
  default     = 1
  description = "Training processes of each allocation without GPUs: local ranks of one host."
}

variable "gpus" {
  type        = number
  default     = 0
  description = "GPUs of each allocation, one training process each; 0: on CPUs."
}

variable "cpu" {
  type        = number
  default     = 1000
  description = "MHz of each training process."
}

variable "memory" {
  type        = number
  default     = 1024
  description = "MiB of each training process."
}

variable "python" {
  type        = string
  default     = "python3"
  description = "A Python that can import horovod.torch."
}

variable "script" {
  type        = string
  default     = "local/train.py"
  description = "The training script: a path on the client, or the one below."
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

locals {
  slots = max(var.slots, var.gpus)
}

job "horovod" {
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

    # The driver restarts a failing slot in place. These blocks apply to a host
    # that keeps failing: Nomad places it elsewhere, and does not give up, while
    # the others train on.
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
      driver = "horovod"

      config {
        command   = var.python
        args      = concat([var.script], var.args)
        isolation = var.isolation
        service   = var.name
        slots     = local.slots
        min_np    = local.slots
        max_np    = local.slots * var.max
      }

      # The first identifies the agent to Nomad's service registry, the second to
      # the agents of other workers, which get a proof of it, never the token.
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

      # Time to reach the next commit and leave without losing a step. A longer
      # one requires max_kill_timeout in the client's configuration.
      kill_timeout = "30s"

      resources {
        cpu    = local.slots * var.cpu
        memory = local.slots * var.memory

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
        import json, os, torch
        import horovod.torch as hvd

        hvd.init()
        device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
        torch.manual_seed(1)
        w, x = torch.randn(16, 1), torch.randn(4800, 16)
        y = torch.tanh(x @ w)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.05), named_parameters=model.named_parameters())
        progress = open(os.environ.get("KOLO_PROGRESS_FILE", os.devnull), "a", buffering=1)

        @hvd.elastic.run
        def train(state):
            while state.epoch < 300:
                samples = list(state.sampler) # none if the ring has changed at the epoch's last commit
                for batch in (samples[i:i + 12] for i in range(0, len(samples), 12)):
                    optimizer.zero_grad()
                    loss = torch.nn.functional.mse_loss(model(x[batch].to(device)), y[batch].to(device))
                    loss.backward()
                    optimizer.step()
                    state.step += 1
                    state.samples += len(batch) * hvd.size()
                    state.sampler.record_batch(0, len(batch))
                    if state.step % 20 == 0:
                        if hvd.rank() == 0:
                            print(f"step {state.step} of epoch {state.epoch}, {hvd.size()} ranks, loss {loss.item():.4f}")
                            progress.write(json.dumps({"step": state.step, "samples": state.samples, "epoch": state.epoch, "loss": loss.item()}) + "\n")
                        state.commit()
                state.epoch += 1
                state.sampler.set_epoch(state.epoch)

        train(hvd.elastic.TorchState(
            model=model, optimizer=optimizer, step=0, samples=0, epoch=0,
            sampler=hvd.elastic.ElasticSampler(range(len(x)))))
        EOT
      }
    }
  }
}
