# What podman's driver takes in another way than docker's, with Horovod.
job "bert" {
  type = "batch"

  group "workers" {
    count          = 2
    shutdown_delay = "1ms"

    network {
      port "ring" {}
      port "kolo" {}
    }

    service {
      name     = "bert"
      port     = "ring"
      provider = "nomad"
    }

    reschedule {
      attempts  = 3
      interval  = "1h"
      unlimited = false
    }

    task "train" {
      driver      = "podman"
      kill_signal = "SIGINT"

      config {
        image        = "docker.io/example/horovod@sha256:0000000000000000000000000000000000000000000000000000000000000000"
        network_mode = "host"
        shm_size     = "64m"
        work_dir     = "/workspace"
        args         = ["--framework=horovod", "--gloo_timeout=soon", "--mode=restart", "--", "python3", "train.py"]
      }

      identity {
        file = true
      }

      resources {
        cpu    = 1000
        memory = 4096
        device "nvidia/gpu" {
          count = 2
        }
      }
    }
  }
}
