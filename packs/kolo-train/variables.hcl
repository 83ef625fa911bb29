# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

variable "image" {
  description = "Image with PyTorch or Horovod; name it by its digest (…@sha256:…)."
  type        = string
}

variable "command" {
  description = "Program that trains, with its arguments, as it is in the image."
  type        = list(string)
}

variable "workers" {
  description = "Allocations to start with; nomad job scale, or the autoscaler, changes it later."
  type        = number
  default     = 1
}

variable "max_workers" {
  description = "Most allocations; 0: as many as workers."
  type        = number
  default     = 0
}

variable "gpus" {
  description = "GPUs of each allocation, one training process each; 0: one process on CPUs."
  type        = number
  default     = 0
}

variable "job_name" {
  description = "Name of the job and of its service."
  type        = string
  default     = "train"
}

variable "framework" {
  description = "torch or horovod."
  type        = string
  default     = "torch"
}

variable "driver" {
  description = "docker or podman."
  type        = string
  default     = "docker"
}

variable "autoscaler" {
  description = "Let Kolo's autoscaler set the number of workers."
  type        = bool
  default     = false
}

variable "flags" {
  description = "More flags of kolo-worker, such as --torch.backend=nccl."
  type        = list(string)
  default     = []
}

variable "kolo_volume" {
  description = "Host volume of the clients with kolo-worker; empty: the image has it at /kolo/kolo-worker."
  type        = string
  default     = "kolo"
}

variable "volumes" {
  description = "Host volumes for data and checkpoints, by the path in the container."
  type        = map(string)
  default     = {}
}

variable "read_only_volumes" {
  description = "Host volumes that are mounted read-only, as clients may demand, by the path in the container."
  type        = map(string)
  default     = {}
}

variable "env" {
  description = "More environment variables."
  type        = map(string)
  default     = {}
}

variable "user" {
  description = "The task's user, as a number: a name may be another user in the image than on the client. Tenants who share clients each have one of their own."
  type        = string
  default     = "65534"
}

variable "pids_limit" {
  description = "Most processes and threads of each allocation; 0: as many as the client lets it."
  type        = number
  default     = 16384
}

variable "cpu" {
  description = "MHz of each allocation."
  type        = number
  default     = 1000
}

variable "memory" {
  description = "MiB of each allocation, for all of its processes."
  type        = number
  default     = 4096
}

variable "shm_mb" {
  description = "MiB of /dev/shm, which data loaders and NCCL share."
  type        = number
  default     = 1024
}

variable "kill_timeout" {
  description = "Time to reach the next commit when an allocation is stopped; more than 30s requires max_kill_timeout of the clients."
  type        = string
  default     = "30s"
}

variable "devices" {
  description = "podman: CDI names of the GPUs; empty: the reserved GPU, where gpus = 1."
  type        = list(string)
  default     = []
}

variable "namespace" {
  description = "Namespace of the job; empty: the default of the command line."
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
