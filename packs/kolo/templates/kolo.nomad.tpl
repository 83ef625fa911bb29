[[- $driver := var "driver" . ]]
[[- if not (has $driver (list "exec" "docker" "podman")) ]][[ fail (printf "driver = %q: must be exec, docker or podman" $driver) ]][[ end ]]
[[- $container := ne $driver "exec" ]]
[[- if and $container (not (var "image" .)) ]][[ fail (printf "image: name the image with kolo, for driver = %q" $driver) ]][[ end ]]
[[- /* Linux distributions give 65520 to no one. Exec's driver knows users by name only. */ -]]
[[- $user := var "user" . ]]
[[- if not $user ]][[ $user = ternary "65520:65520" "nobody" $container ]][[ end ]]
[[- if has (index (splitList ":" $user) 0) (list "root" "0") ]][[ fail "user: the autoscaler needs no root; name another" ]][[ end ]]
[[- $number := index (splitList ":" $user) 0 ]]
[[- if eq $user "nobody" ]][[ $number = "65534" ]][[ end ]]
[[- if regexMatch `(?m)^\s*read_token\b` (var "http" .) ]][[ fail "http: read_token is a variable of its own" ]][[ end ]]
[[- $name := var "job_name" . ]]
job [[ $name | quote ]] {
  type        = "service"
  datacenters = [[ var "datacenters" . | toJson ]]
  node_pool   = [[ var "node_pool" . | quote ]]
[[- if var "namespace" . ]]
  namespace   = [[ var "namespace" . | quote ]]
[[- end ]]

  update {
    max_parallel = 1
    stagger      = "30s"
  }

  group "agent" {
    count = [[ var "count" . | int ]]

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
      name     = [[ $name | quote ]]
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/v1/health"
        interval = "10s"
        timeout  = "2s"
[[- if var "tls" . ]]
        protocol        = "https"
        tls_skip_verify = true # asks whether it lives; sends no token
[[- end ]]
      }
    }

    task "agent" {
      driver = [[ $driver | quote ]]
      user   = [[ $user | quote ]]

      # Its token for Nomad, by the Task API.
      identity {
        env = true
      }

      env {
        NOMAD_ADDR = "unix://${NOMAD_SECRETS_DIR}/api.sock"
      }

      config {
[[- if $container ]]
        image           = [[ var "image" . | quote ]]
        network_mode    = "host"
        readonly_rootfs = true
        cap_drop        = ["all"]
[[- if gt (var "pids_limit" . | int) 0 ]]
        pids_limit      = [[ var "pids_limit" . | int ]]
[[- end ]]
[[- else ]]
        command = [[ var "kolo" . | quote ]]
[[- end ]]
        args = ["agent", "-config", "${NOMAD_TASK_DIR}/kolo.hcl", "-name", "${NOMAD_SHORT_ALLOC_ID}"]
      }

      template {
        destination   = "local/kolo.hcl"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<-EOT
          http {
            bind = "{{ env "NOMAD_IP_http" }}"
            port = {{ env "NOMAD_PORT_http" }}
            unix = "off"
            read_token = [[ var "read_token" . ]]
[[- if var "tls" . ]]
            tls {
              cert_file = "{{ env "NOMAD_SECRETS_DIR" }}/cert.pem"
              key_file  = "{{ env "NOMAD_SECRETS_DIR" }}/key.pem"
              ca_file   = "{{ env "NOMAD_SECRETS_DIR" }}/ca.pem"
            }
[[- end ]]
[[- if var "http" . ]]
[[ var "http" . | indent 12 ]]
[[- end ]]
          }
[[- if var "namespace" . ]]
          leader {
            namespace = [[ var "namespace" . | quote ]]
          }
[[- end ]]
[[ var "pools" . | indent 10 ]]
        EOT
      }
[[- if var "tls" . ]]
[[- range list "cert" "key" "ca" ]]

      # The job's identity may read this variable, and no other job's.
      template {
        destination   = "secrets/[[ . ]].pem"
        change_mode   = "signal"
        change_signal = "SIGHUP"
[[- if and (eq . "key") (regexMatch "^[0-9]+$" $number) ]]
        uid           = [[ $number ]]
        perms         = "0400"
[[- else ]]
        perms         = "0444"
[[- end ]]
        data = <<-EOT
          {{ with nomadVar "nomad/jobs/[[ $name ]]" }}{{ .[[ . ]] }}{{ end }}
        EOT
      }
[[- end ]]
[[- end ]]

      resources {
        cpu    = [[ var "cpu" . | int ]]
        memory = [[ var "memory" . | int ]]
      }
    }
  }
}
