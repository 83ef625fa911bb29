variable "python" {
  type = string
}

variable "script" {
  type = string
}

variable "result" {
  type = string
}

variable "roles" {
  type        = string
  description = "comma-separated; the first needs no GPU"
}

variable "ratio" {
  type = string
}

# Each role is a group. They find each other by a template.
job "train" {
  type = "batch"

  dynamic "group" {
    for_each = split(",", var.roles)
    labels   = [group.value]
    content {
      scaling {
        min = 0
        max = 3
        policy {
          kolo {
            gang  = split(",", var.roles)
            ratio = var.ratio
          }
        }
      }

      network {
        port "peer" {}
      }

      service {
        name     = group.value
        port     = "peer"
        provider = "nomad"
      }

      task "train" {
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
          RES_OPTIONS          = "attempts:1 timeout:1" # PyTorch looks up its peers' names, which takes 10 s each without a name server
        }

        template {
          destination = "local/members"
          change_mode = "noop" # the script reads it until all are there
          data        = <<-EOT
            {{- range $role := split "," "${var.roles}" }}{{ range nomadService $role }}
            {{ $role }} {{ .Address }}:{{ .Port }}{{ end }}{{ end }}
          EOT
        }

        resources {
          cpu    = 900
          memory = 800

          dynamic "device" {
            for_each = group.key == 0 ? [] : ["nvidia/gpu"]
            labels   = [device.value]
            content {}
          }
        }
      }
    }
  }
}
