[[- $driver := var "driver" . ]]
[[- if not (has $driver (list "docker" "podman")) ]][[ fail (printf "driver = %q: must be docker or podman" $driver) ]][[ end ]]
[[- $framework := var "framework" . ]]
[[- if not (has $framework (list "torch" "horovod")) ]][[ fail (printf "framework = %q: must be torch or horovod" $framework) ]][[ end ]]
[[- if not (var "command" .) ]][[ fail "command: name the program that trains" ]][[ end ]]
[[- $gpus := var "gpus" . | int ]]
[[- $slots := max $gpus 1 | int ]]
[[- $workers := var "workers" . | int ]]
[[- $most := max (var "max_workers" . | int) $workers | int ]]
[[- $devices := var "devices" . ]]
[[- if and (eq $driver "podman") (gt $gpus 1) (not $devices) ]][[ fail "gpus: podman takes several GPUs by their CDI names; set devices" ]][[ end ]]
[[- $least := 1 ]]
[[- if not (var "autoscaler" .) ]][[ $least = min $workers 1 | int ]][[ end ]]
[[- $name := var "job_name" . ]]
job [[ $name | quote ]] {
  type        = "batch"
  datacenters = [[ var "datacenters" . | toJson ]]
  node_pool   = [[ var "node_pool" . | quote ]]
[[- if var "namespace" . ]]
  namespace   = [[ var "namespace" . | quote ]]
[[- end ]]

  group "workers" {
    count = [[ $workers ]]

    scaling {
      enabled = true
      min     = [[ $least ]]
      max     = [[ $most ]]
[[- if var "autoscaler" . ]]
      policy {
        kolo {}
      }
[[- end ]]
    }

    network {
      port "kolo" {}
    }

    shutdown_delay = "1ms"

    service {
      name     = [[ $name | quote ]]
      port     = "kolo"
      provider = "nomad"
    }

    restart {
      attempts = 1
      interval = "10m"
      delay    = "5s"
      mode     = "fail"
    }

    reschedule {
      attempts       = 0
      unlimited      = true
      delay          = "10s"
      delay_function = "exponential"
      max_delay      = "5m"
    }
[[- if var "kolo_volume" . ]]

    volume "kolo" {
      type      = "host"
      source    = [[ var "kolo_volume" . | quote ]]
      read_only = true
    }
[[- end ]]
[[- range $path, $source := var "volumes" . ]]

    volume [[ $source | quote ]] {
      type   = "host"
      source = [[ $source | quote ]]
    }
[[- end ]]
[[- range $path, $source := var "read_only_volumes" . ]]

    volume [[ $source | quote ]] {
      type      = "host"
      source    = [[ $source | quote ]]
      read_only = true
    }
[[- end ]]

    task "train" {
      driver       = [[ $driver | quote ]]
      user         = [[ var "user" . | quote ]]
      kill_timeout = [[ var "kill_timeout" . | quote ]]

      config {
        image        = [[ var "image" . | quote ]]
        entrypoint   = ["/kolo/kolo-worker"]
        network_mode = "host"
        hostname     = "${NOMAD_IP_kolo}"
[[- if gt (var "pids_limit" . | int) 0 ]]
        pids_limit   = [[ var "pids_limit" . | int ]]
[[- end ]]
[[- if eq $driver "podman" ]]
        shm_size     = "[[ var "shm_mb" . | int ]]m"
[[- if $devices ]]
        devices      = [[ $devices | toJson ]]
[[- else if gt $gpus 0 ]]
        devices      = ["nvidia.com/gpu=${NVIDIA_VISIBLE_DEVICES}"]
[[- end ]]
[[- else ]]
        shm_size     = [[ mul (var "shm_mb" . | int) 1048576 ]]
[[- end ]]
        args = [
          "--framework=[[ $framework ]]",
          [[ printf "--service=%s" $name | quote ]],
          [[ printf "--kill_timeout=%s" (var "kill_timeout" .) | quote ]],
          "--max_np=[[ mul $most $slots ]]",
[[- range var "flags" . ]]
          [[ . | quote ]],
[[- end ]]
          "--",
[[- range var "command" . ]]
          [[ . | quote ]],
[[- end ]]
        ]
      }
[[- if var "kolo_volume" . ]]

      volume_mount {
        volume      = "kolo"
        destination = "/kolo"
        read_only   = true
      }
[[- end ]]
[[- range $path, $source := var "volumes" . ]]

      volume_mount {
        volume      = [[ $source | quote ]]
        destination = [[ $path | quote ]]
      }
[[- end ]]
[[- range $path, $source := var "read_only_volumes" . ]]

      volume_mount {
        volume      = [[ $source | quote ]]
        destination = [[ $path | quote ]]
        read_only   = true
      }
[[- end ]]
[[- if var "env" . ]]

      env {
[[- range $key, $value := var "env" . ]]
        [[ $key ]] = [[ $value | quote ]]
[[- end ]]
      }
[[- end ]]

      identity {
        file = true
      }

      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "15m"
      }

      resources {
        cpu    = [[ var "cpu" . | int ]]
        memory = [[ var "memory" . | int ]]
[[- if gt $gpus 0 ]]
        device "nvidia/gpu" {
          count = [[ $gpus ]]
        }
[[- end ]]
      }
    }
  }
}
