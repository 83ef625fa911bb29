variable "python" {
  type = string
}

variable "script" {
  type = string
}

variable "result" {
  type = string
}

# Each role is a group, and a unit is a chief, a server and two workers.
job "train" {
  type = "batch"

  dynamic "group" {
    for_each = ["chief", "ps", "worker"]
    labels   = [group.value]
    content {
      scaling {
        min = 0
        max = 2
        policy {
          kolo {
            gang  = ["ps", "worker", "chief"]
            ratio = "1:2:1"
          }
        }
      }

      network {
        port "tf" {}
      }

      service {
        name     = group.value
        port     = "tf"
        provider = "nomad"
      }

      task "tf" {
        driver       = "raw_exec"
        kill_timeout = "5s"

        config {
          command = var.python
          args    = [var.script, "${NOMAD_TASK_DIR}/members", var.result]
        }

        env {
          ROLE                 = group.value
          CUDA_VISIBLE_DEVICES = ""
          TF_CPP_MIN_LOG_LEVEL = "2"
        }

        template {
          destination = "local/members"
          change_mode = "noop" # the script reads it until all are there
          data        = <<-EOT
            {{- range $role := split "," "chief,ps,worker" }}{{ range nomadService $role }}
            {{ $role }} {{ .Address }}:{{ .Port }}{{ end }}{{ end }}
          EOT
        }

        resources {
          cpu    = 1000
          memory = 800
        }
      }
    }
  }
}
