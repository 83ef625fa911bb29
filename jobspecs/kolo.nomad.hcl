# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# The autoscaler as a Nomad job: two instances on two clients, of which one leads.
# (Where there is only one client, the second waits.) They reach Nomad through
# the Task API with their workload identity, so there is no token to distribute.
#
# Nothing in it needs root: it runs isolated (exec), as a user without rights.
# Requires the program at one path on each client, below /usr or where else the
# client's chroot_env reaches; constrain the group where only some have it.
# Where ACLs are on, give that identity the policy it needs:
#
#   nomad acl policy apply -namespace default -job kolo kolo jobspecs/kolo.policy.hcl
#   nomad job run -var kolo=/usr/local/bin/kolo jobspecs/kolo.nomad.hcl
#   nomad service info kolo        # where it listens: KOLO_ADDR, any of them
#
# Commands require a Nomad token (NOMAD_TOKEN). The API is plain HTTP on the
# clients' network, unless var.http has a tls block: docs/howto/secure-the-api.md.

variable "kolo" {
  type        = string
  description = "Path of the kolo binary on the clients."
  default     = "/usr/local/bin/kolo"
}

variable "user" {
  type        = string
  description = "User of the clients that it runs as; one of its own, where there is one, shares its rights with no other task."
  default     = "nobody"
}

variable "http" {
  type        = string
  description = "HCL of more settings of the http block, such as read_token = true. With a tls block the check below requires protocol = \"https\"."
  default     = ""
}

variable "pools" {
  type        = string
  description = "HCL of the pool blocks; the default is for GPUs in the pool \"default\" and jobs of the namespace \"default\"."
  default     = <<-EOT
    pool "default" {
      policy "kolo" {}
      queue "default" {
        namespaces = ["default"]
      }
      queue "*" {
        namespaces = []
      }
    }
  EOT
}

job "kolo" {
  type = "service"

  update {
    max_parallel = 1
    stagger      = "30s"
  }

  group "agent" {
    count = 2

    # The second is there for the loss of the first's node.
    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    network {
      port "http" {}
    }

    # A client that looked the address up before Nomad removed it from the registry
    # still gets an answer.
    shutdown_delay = "2s"

    service {
      name     = "kolo"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/v1/health"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "agent" {
      driver = "exec"
      user   = var.user

      identity {
        env = true
      }

      env {
        NOMAD_ADDR = "unix://${NOMAD_SECRETS_DIR}/api.sock"
      }

      config {
        command = var.kolo
        args    = ["agent", "-config", "${NOMAD_TASK_DIR}/kolo.hcl", "-name", "${NOMAD_SHORT_ALLOC_ID}"]
      }

      template {
        destination   = "local/kolo.hcl"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<-EOT
          http {
            bind = "{{ env "NOMAD_IP_http" }}"
            port = {{ env "NOMAD_PORT_http" }}
            ${var.http}
          }
          ${var.pools}
        EOT
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
