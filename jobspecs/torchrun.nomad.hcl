# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A script for torchrun as it is: one training process per allocation, 1 to 4 of
# them, on CPUs. For each change of their number others take their places, and go on
# from the checkpoint. Requires PyTorch 2.1 or newer, and a host volume "checkpoints"
# that all clients share (NFS, for one), which the task's user may write to.
# A PyTorch without libuv, such as Debian's, requires the Python package kolo and
# -var 'start=["-m", "kolo.launch"]'.
#
#   nomad job run jobspecs/torchrun.nomad.hcl
#   nomad job scale torchrun workers 4

variable "count" {
  type        = number
  default     = 2
  description = "Allocations to start with; nomad job scale changes it later."
}

variable "python" {
  type        = string
  default     = "python3"
  description = "A Python that can import torch."
}

variable "start" {
  type        = list(string)
  default     = []
  description = "Arguments of Python before the script."
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

job "torchrun" {
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

    # Nomad takes a worker out of the registry, waits this long, and stops it. Its
    # agent then serves this port until its processes have left the ring, so that
    # waiting longer only keeps them from leaving at the next commit.
    shutdown_delay = "1ms"

    # Workers find each other as instances of this service, and serve the
    # ring's status and metrics on it.
    service {
      name     = "torchrun"
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
        args      = concat(var.start, [var.script], var.args)
        isolation = var.isolation
        service   = "torchrun"
        min_np    = 1
        max_np    = 4

        # How a process is asked to save its checkpoint and to end.
        checkpoint {
          signal = "SIGUSR1"
          wait   = "20s"
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

      # Time to save a checkpoint and leave without losing a step. A longer one
      # requires max_kill_timeout in the client's configuration.
      kill_timeout = "30s"

      volume_mount {
        volume      = "checkpoints"
        destination = "/checkpoints"
      }

      # For two processes: the next one starts while the current one trains.
      resources {
        cpu    = 1000
        memory = 2048
      }

      template {
        destination = "local/train.py"
        data        = <<-EOT
        #!/usr/bin/env python3
        """Learns y = tanh(w.x): what a script for torchrun needs to lose no step."""
        import os, signal
        import torch
        import torch.distributed as dist

        asked = False

        def ask(*_):
            global asked
            asked = True

        signal.signal(signal.SIGUSR1, ask)
        dist.init_process_group("gloo")
        torch.manual_seed(1)
        w, x = torch.randn(16, 1), torch.randn(4800, 16)
        data = torch.utils.data.TensorDataset(x, torch.tanh(x @ w))
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        path, step = "/checkpoints/model.pt", 0
        if os.path.exists(path):
            saved = torch.load(path)
            model.load_state_dict(saved["model"])
            step = saved["step"]
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        flag = torch.zeros(1)
        while step < 100000 and not flag:
            batch = torch.randint(len(data), (12,))
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(ddp(data[batch][0]), data[batch][1])
            loss.backward()
            optimizer.step()
            step += 1
            flag.fill_(asked)
            dist.all_reduce(flag, op=dist.ReduceOp.MAX) # all end at the same step
            if dist.get_rank() == 0 and (flag or step % 1000 == 0):
                print(f"step {step}, {dist.get_world_size()} ranks, loss {loss.item():.4f}")
                torch.save({"model": model.state_dict(), "step": step}, path + ".part")
                os.replace(path + ".part", path)
        dist.barrier() # until rank 0 has saved
        dist.destroy_process_group()
        EOT
      }
    }
  }
}
