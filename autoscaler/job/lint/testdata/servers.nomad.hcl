# Servers without devices in a gang: nothing is wrong.
job "train" {
  type = "batch"
  group "ps" {
    scaling {
      min = 0
      max = 2
      policy {
        kolo {
          gang  = ["ps", "workers"]
          ratio = "1:2"
        }
      }
    }
    task "t" {
      driver = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 3000
        memory = 32
      }
    }
  }
  group "workers" {
    scaling {
      min = 0
      max = 4
      policy {
        kolo {}
      }
    }
    task "t" {
      driver = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 100
        memory = 32
        device "nvidia/gpu" {}
      }
    }
  }
}
