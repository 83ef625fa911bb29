# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

variable "driver" {
  description = "exec, docker or podman."
  type        = string
  default     = "exec"
}

variable "kolo" {
  description = "exec: path of the kolo program on the clients, below /usr or elsewhere in their chroot_env."
  type        = string
  default     = "/usr/local/bin/kolo"
}

variable "image" {
  description = "docker, podman: image with kolo as its entry point; name it by its digest (…@sha256:…)."
  type        = string
  default     = ""
}

variable "job_name" {
  description = "Name of the job and of its service."
  type        = string
  default     = "kolo"
}

variable "count" {
  description = "Instances, each on a client of its own; one leads."
  type        = number
  default     = 2
}

variable "user" {
  description = "User that it runs as. exec: a name that the clients know, preferably a separate user; docker, podman: a number. Empty: nobody under exec, 65520 in images."
  type        = string
  default     = ""
}

variable "pools" {
  description = "HCL of the pool blocks. The default takes jobs of the namespace default. Other namespaces each need a queue block."
  type        = string
  default     = "pool \"default\" {\n  policy \"kolo\" {}\n  queue \"default\" {\n    namespaces = [\"default\"]\n  }\n  queue \"*\" {\n    namespaces = []\n  }\n}"
}

variable "read_token" {
  description = "Reading requires a Nomad token. false: anyone who reaches the API reads all jobs; use it if Nomad's ACLs are off."
  type        = bool
  default     = true
}

variable "http" {
  description = "HCL of more settings of the http block, such as hosts = [\"kolo.example\"]."
  type        = string
  default     = ""
}

variable "tls" {
  description = "Serve HTTPS with the certificate and key in the items cert and key of the Nomad variable nomad/jobs/<job_name>, and ca."
  type        = bool
  default     = false
}

variable "pids_limit" {
  description = "docker, podman: largest number of processes and threads of each instance; 0: the client's limit."
  type        = number
  default     = 1024
}

variable "cpu" {
  description = "MHz of each instance."
  type        = number
  default     = 200
}

variable "memory" {
  description = "MiB of each instance."
  type        = number
  default     = 256
}

variable "namespace" {
  description = "Namespace of the job and of its variables kolo/*; empty: the default of the command line for the job, \"default\" for the variables."
  type        = string
  default     = ""
}

variable "datacenters" {
  description = "Datacenters of the job."
  type        = list(string)
  default     = ["*"]
}

variable "node_pool" {
  description = "Node pool of the job."
  type        = string
  default     = "default"
}
