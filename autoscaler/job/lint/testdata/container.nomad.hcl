# Every mistake that a job with an image has been seen with.
variable "tag" {
  type    = string
  default = "2.6"
}

locals {
  mode = "bridge"
}

job "resnet" {
  type = "service"

  group "workers" {
    count = 2

    scaling {
      enabled = true
      min     = 1
      max     = 4
      policy {
        kolo {
          weigth = 2
          sizes  = [8]
        }
      }
    }

    network {
      mode = local.mode
      port "kolo" {
        to = 8000
      }
    }

    shutdown_delay = "20s"

    service {
      name = "resnet"
      port = "http"
    }

    task "train" {
      driver       = "docker"
      user         = "nobody"
      kill_timeout = "2m"
      kill_signal  = "SIGHUP"

      env {
        NVIDIA_VISIBLE_DEVICES = "all"
      }

      config {
        image        = "example/torch:${var.tag}"
        network_mode = "bridge"
        netwrok_mode = "host"
        shm_size     = "1g"
        entrypoint   = ["/kolo/kolo-worker"]
        args = [
          "--framework=torch",
          "--kill-timeout=30s",
          "--min_np=5",
          "--max_np=3",
          "--spares=7",
          "--stall_timeout=${NOMAD_META_stall}",
          "--torch.backend=GLOO",
          "--", "torchrun", "train.py",
        ]
      }

      identity {
        env = true
      }

      identity {
        name = "vault_default"
        aud  = ["vault.io"]
      }

      identity {
        name = "kolo"
        aud  = ["nomad"]
      }
    }
  }
}
