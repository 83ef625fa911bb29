# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# A policy of Nomad Autoscaler, for the directory of its option -policy-dir: it adds
# nodes that Kolo's jobs could use, and removes nodes that they left empty.
# Adapt "gpu" (node pool), "a100" (node class), min, max and the target.
scaling "gpu-a100" {
  enabled = true
  type    = "cluster"
  min     = 1 # Kolo knows the size of a class by its nodes
  max     = 16

  policy {
    cooldown            = "5m"
    evaluation_interval = "30s"
    on_check_error      = "fail" # without Kolo's metrics nothing changes

    # As many nodes as there are and jobs could use. With state="waiting" in the
    # second selector, nodes are added for jobs that cannot start, not for growth.
    check "wanted" {
      group        = "kolo"
      source       = "prometheus"
      query        = "max(kolo_nodes{pool=\"gpu\",class=\"a100\"}) + max(sum by (instance) (kolo_nodes_wanted{pool=\"gpu\",class=\"a100\"}))"
      query_window = "1m"

      strategy "pass-through" {
        max_scale_up   = "4"
        max_scale_down = "0" # nodes that still boot are not in Kolo's count
      }
    }

    # One node less where one was without a worker for ten minutes. The checks are in
    # one group: while jobs want nodes, none is removed.
    check "idle" {
      group        = "kolo"
      source       = "prometheus"
      query        = "min_over_time(max(kolo_nodes_idle{pool=\"gpu\",class=\"a100\"})[10m:1m])"
      query_window = "1m"

      strategy "threshold" {
        lower_bound = "1"
        delta       = "-1"
      }
    }

    target "aws-asg" {
      dry-run             = "true" # remove it once the log shows what you expect
      aws_asg_name        = "gpu-a100"
      node_class          = "a100"
      node_pool           = "gpu"
      node_drain_deadline = "15m"

      # Removes only nodes without allocations. Where system jobs run on every node,
      # write "empty_ignore_system".
      node_selector_strategy = "empty"
    }
  }
}
