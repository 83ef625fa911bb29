# Groups in a ratio, and what is wrong with it.
job "train" {
  type = "batch"

  group "ps" {
    scaling {
      min = 1
      max = 4
      policy {
        kolo {}
      }
    }

    task "serve" {
      driver = "exec"
      config {
        command = "/usr/local/bin/serve"
      }
    }
  }

  group "workers" {
    scaling {
      min = 0
      max = 16
      policy {
        kolo {
          gang = ["server", "workers"]
          ratio = "1:4:1"
          min   = 7
        }
      }
    }

    task "train" {
      driver = "exec"
      config {
        command = "/usr/local/bin/train"
      }
    }
  }
}
