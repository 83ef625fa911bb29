# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Elastic PyTorch without Horovod: one training process per allocation, 1 to 4 of
# them, on CPUs. Requires PyTorch 2.1 or newer and the Python package kolo. A
# Python outside /usr, such as a virtual environment, is seen by tasks only if
# bind_paths of the client's plugin "nomad-driver-torch" names it.
#
#   nomad job run jobspecs/torch.nomad.hcl
#   nomad job scale torch workers 4

variable "count" {
  type        = number
  default     = 2
  description = "Allocations to start with; nomad job scale changes it later."
}

variable "python" {
  type        = string
  default     = "python3"
  description = "A Python that can import torch and kolo.torch."
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

job "torch" {
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

    # Nomad takes a worker out of the registry, waits this long, and stops it. Its
    # agent then serves this port until its processes have left the ring, so that
    # waiting longer only keeps them from leaving at the next commit.
    shutdown_delay = "1ms"

    # Workers find each other as instances of this service, and serve the
    # ring's status and metrics on it.
    service {
      name     = "torch"
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
      driver = "torch"

      config {
        command   = var.python
        args      = concat([var.script], var.args)
        isolation = var.isolation
        service   = "torch"
        min_np    = 1
        max_np    = 4

        torch {
          backend = "gloo"
        }
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
        cpu    = 1000
        memory = 1024
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
