# A task of Kolo's own driver.
job "driver" {
  type = "batch"

  group "workers" {
    count = 2

    network {
      port "kolo" {}
    }

    service {
      name     = "rings"
      port     = "kolo"
      provider = "nomad"
    }

    disconnect {
      lost_after = "1h"
    }

    reschedule {
      unlimited = true
    }

    task "train" {
      driver       = "torch"
      kill_timeout = "5s"

      config {
        comand    = "python3"
        command   = "python3"
        args      = ["local/train.py"]
        service   = "ring"
        isolation = "chroot"
        work_dir  = "../examples"
        slots     = 4
        np        = 16
        settle    = "2s"

        torch {
          backnd = "gloo"
          timeout = "1ms"
        }

        horovod {
          cycle_time_ms = 1
        }

        checkpoint {
          signal = "SIGKILL"
          wait   = "${NOMAD_META_wait}"
        }
      }

      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "15m"
      }

      resources {
        cpu    = 1000
        memory = 1024
      }
    }

    task "log" {
      driver = "exec"
      config {
        command = "tail"
      }
    }
  }
}
