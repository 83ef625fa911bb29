#!/bin/bash
# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
#
# usage: reaper.sh DIR NETWORK
# Waits until standard input closes, then ends every process that belongs to
# the cluster in DIR, and removes DIR, its mounts and its network.
set -u
trap '' INT TERM HUP
dir=$1 network=$2

cat >/dev/null

namespaces() {
  [ -n "$network" ] && ip netns list 2>/dev/null | awk -v p="$network-" 'index($1, p) == 1 {print $1}'
}

# interactive reports whether process $1 is a shell at a terminal or runs in its
# foreground: someone looks into DIR. What clusters start does neither.
interactive() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null)
  set -- "$1" ${stat##*) } # pid state parent group session terminal foreground-group
  [ "${6:-0}" != 0 ] && { [ "$4" = "$7" ] || [ "$1" = "$5" ]; }
}

# members prints the processes in the cluster's namespaces, and those that run
# in DIR or were started with something of it. No program that it calls has DIR
# among its arguments, or it would print that one, too.
members() {
  for ns in $(namespaces); do ip netns pids "$ns" 2>/dev/null; done
  {
    grep -lasF -f <(printf '%s/\n' "$dir") /proc/[0-9]*/cmdline
    stat -c '%n %N' /proc/[0-9]*/cwd | d="'$dir" awk '{ at = substr($4, 1, length(ENVIRON["d"]) + 1) } at == ENVIRON["d"] "\047" || at == ENVIRON["d"] "/" {print $1}'
  } 2>/dev/null | cut -d/ -f3 | grep -vx -e "$$" -e "$PPID" | while read -r pid; do
    interactive "$pid" || echo "$pid"
  done
}

for _ in $(seq 50); do
  pids=$(members)
  [ -z "$pids" ] && break
  kill -9 $pids 2>/dev/null
  sleep 0.1
done

awk -v d="$dir/" 'index($2, d) == 1 {print $2}' /proc/mounts | sort -r | while read -r m; do
  umount -l "$m" 2>/dev/null
done
for ns in $(namespaces); do ip netns del "$ns" 2>/dev/null; done
if [ -n "$network" ]; then
  for bridge in "$network" "$network-r"; do
    # Deleting one end of a cable deletes both, also where a namespace lives on.
    for link in $(ip -o link show master "$bridge" 2>/dev/null | awk -F': ' '{print $2}' | cut -d@ -f1); do
      ip link del "$link" 2>/dev/null
    done
    ip link del "$bridge" 2>/dev/null
  done
fi

# Nomad and container engines remove the cgroups of tasks that they see end; these they
# did not see. Their names have those of allocations (36 digits) and containers (64).
for path in "$dir"/*/alloc/*/ "$dir"/*/podman/store/overlay-containers/*/ "$dir"/*/docker/data/containers/*/; do
  id=$(basename "$path")
  case ${#id} in 36 | 64) ;; *) continue ;; esac
  find /sys/fs/cgroup -depth -type d -name "*$id*" -exec rmdir {} + 2>/dev/null
done
rm -rf "$dir"
