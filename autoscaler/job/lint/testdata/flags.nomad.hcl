# Flags that kolo-worker refuses, a program around it, blocks by dynamic, and a task
# without a group.
variable "hosts" {
  type = map(number)
  default = {
    a = 1
    b = 2
  }
}

job "flags" {
  type = "batch"

  dynamic "group" {
    for_each = var.hosts
    labels   = [group.key]
    content {
      count = group.value
      task "train" {
        driver = "raw_exec"
        config {
          command = "/opt/kolo/bin/kolo-worker"
          args    = ["--framework=tensorflow", "--", "python3", "train.py"]
        }
      }
    }
  }

  group "unknown" {
    task "train" {
      driver = "exec"
      config {
        command = "/opt/kolo/bin/kolo-worker"
        args    = ["--framework=torch", "--nproc=4", "--", "python3", "train.py"]
      }
    }
  }

  group "shell" {
    task "train" {
      driver = "exec2"
      config {
        command = "sh"
        args    = ["-c", "exec /opt/kolo/bin/kolo-worker --framework=torch -- python3 train.py"]
      }
    }
  }

  task "alone" {
    driver = "exec"
    config {
      command = "kolo-worker"
      args    = ["--framework=torch", "--max_np", "4", "--", "python3", "train.py"]
    }
  }
}
