// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
)

// containerFields lists the known config fields of container drivers: docker in Nomad
// 1.11, and nomad-driver-podman 0.6.
var containerFields = map[string][]string{
	"docker": strings.Fields(`advertise_ipv6_address args auth auth_soft_fail cap_add cap_drop cgroupns command container_exists_attempts cpu_cfs_period
		cpu_hard_limit cpuset_cpus devices dns_options dns_search_domains dns_servers entrypoint extra_hosts force_pull group_add healthchecks hostname image
		image_pull_timeout init interactive ipc_mode ipv4_address ipv6_address isolation labels load logging mac_address memory_hard_limit mount mounts
		network_aliases network_mode oom_score_adj pid_mode pids_limit port_map ports privileged readonly_rootfs runtime security_opt shm_size storage_opt
		sysctl tty ulimit userns_mode uts_mode volume_driver volumes work_dir`),
	"podman": strings.Fields(`apparmor_profile arch args auth auth_soft_fail cap_add cap_drop command cpu_cfs_period cpu_hard_limit devices entrypoint
		extra_hosts force_pull hostname image image_pull_timeout init init_path ipc_mode ipv4_address ipv6_address labels logging memory_reservation
		memory_swap memory_swappiness network_mode oom_score_adj os pids_limit port_map ports privileged readonly_rootfs security_opt selinux_opts shm_size
		socket static_ips static_mac sysctl tmpfs tty ulimit userns variant volumes working_dir`),
}

// leastShm is twice the default of container runtimes.
const leastShm = 128 << 20

// stops lists the signals on which kolo-worker leaves its ring.
var stops = []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGRTMIN+3"}

// checkContainer checks a container task's requirements of docker or podman.
func (c *checker) checkContainer(w *worker) {
	at := func(name string) hcl.Range { return c.src.at(w.to("config", name)...) }
	config := w.task.Config
	known := containerFields[w.task.Driver]
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(known, name) {
			c.warnf("config", at(name), "the driver %s is not known to have the field %q%s", w.task.Driver, name, suggest.Hint("", name, known))
		}
	}
	if mode, _ := config["network_mode"].(string); mode != "host" && !onlyThere(mode) {
		given := "is not set"
		if mode != "" {
			given = fmt.Sprintf("= %q", mode)
		}
		c.errorf("network-mode", at("network_mode"), `network_mode %s: processes of a ring listen at ports of their own choice, which no other host reaches in a network of the container's own; write network_mode = "host"`, given)
	}
	c.checkHostname(w, at("hostname"))
	c.checkShm(w, at("shm_size"))
	c.checkImage(w, at("image"))
	c.checkUser(w)
	c.checkSignal(w)
	c.checkContainerGPUs(w)
}

// checkHostname checks the container's name, because Horovod listens at the address it
// resolves to.
func (c *checker) checkHostname(w *worker, at hcl.Range) {
	name, _ := w.task.Config["hostname"].(string)
	if w.framework == nil || w.framework.Name() != "horovod" || strings.Contains(name, "NOMAD_IP_") {
		return
	}
	c.warnf("hostname", at, `Horovod's processes listen where the container's own name resolves to, on many machines a loopback address; write hostname = "${NOMAD_IP_%s}"`, portOf(w))
}

// portOf returns the label of the task's port, or the default if there are several.
func portOf(w *worker) string {
	if labels := ports(w.group); len(labels) == 1 {
		return variableName(labels[0])
	}
	return "kolo"
}

var sizeText = regexp.MustCompile(`^([0-9]+)([bkmgBKMG]?)$`)

// checkShm checks the size of /dev/shm, which docker takes in bytes and podman as text.
func (c *checker) checkShm(w *worker, at hcl.Range) {
	value, given := w.task.Config["shm_size"]
	mode, _ := w.task.Config["ipc_mode"].(string)
	example := `1073741824`
	if w.task.Driver == "podman" {
		example = `"1g"`
	}
	if !given {
		if mode != "host" {
			c.warnf("shm-size", at, "shm_size is not set: a container has 64 MB of /dev/shm, too few for most data loaders with workers and for NCCL; write shm_size = %s", example)
		}
		return
	}
	text := fmt.Sprint(number(value))
	if f, ok := number(value).(float64); ok {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	m := sizeText.FindStringSubmatch(text)
	if m == nil || w.task.Driver == "docker" && m[2] != "" {
		if !onlyThere(text) {
			c.errorf("shm-size", at, "shm_size = %q: is not a size for the driver %s; write shm_size = %s", text, w.task.Driver, example)
		}
		return
	}
	size, err := strconv.ParseInt(m[1], 10, 64)
	for range strings.Index("bkmg", strings.ToLower(m[2])) { // "" is at 0, as b is
		size = min(size, 1<<40) << 10
	}
	if err == nil && size < leastShm {
		c.warnf("shm-size", at, "shm_size = %s: is less than 128 MB, too few for most data loaders with workers and for NCCL; write shm_size = %s", text, example)
	}
}

// checkImage warns unless the image is given with its digest.
func (c *checker) checkImage(w *worker, at hcl.Range) {
	image, _ := w.task.Config["image"].(string)
	switch {
	case image == "":
		c.errorf("image", at, "image is not set; write image = \"<name>@sha256:…\", with PyTorch or Horovod in it")
	case !strings.Contains(image, "@sha256:") && !onlyThere(image):
		c.warnf("image", at, "image = %q: a tag may name another image later, on another client or when the job trains again; write it with its digest, <name>@sha256:…", short(image, 200))
	}
}

// checkUser warns unless the user is a number, which means the same user in the image
// and on the client.
func (c *checker) checkUser(w *worker) {
	at := c.src.at(w.to("user")...)
	switch user, _, _ := strings.Cut(w.task.User, ":"); {
	case user == "":
		c.warnf("user", at, `user is not set: the image decides it, and another user than root cannot read the task's identity; write a number, such as user = "65534"`)
	case onlyThere(user):
	case strings.Trim(user, "0123456789") != "":
		c.warnf("user", at, `user = %q: may have one number on the client and another in the image, and then cannot read the task's identity; write a number, such as user = "65534"`, short(user, 60))
	}
}

// checkSignal checks the signal that stops a container.
func (c *checker) checkSignal(w *worker) {
	signal := w.task.KillSignal
	if signal == "" || onlyThere(signal) {
		return
	}
	at := c.src.at(w.to("kill_signal")...)
	switch {
	case w.task.Driver == "podman":
		c.warnf("kill-signal", at, "kill_signal = %q: podman's driver ignores it, and sends what the image's STOPSIGNAL is; leave it out", signal)
	case !slices.Contains(stops, signal):
		c.errorf("kill-signal", at, `kill_signal = %q: %s does not leave at it, so that the steps since the last commit would be lost; leave it out, or write "SIGTERM"`, signal, program)
	}
}

// checkContainerGPUs checks how the container gets its GPUs.
func (c *checker) checkContainerGPUs(w *worker) {
	visible, given := w.task.Env["NVIDIA_VISIBLE_DEVICES"]
	if given && w.gpus() == 0 && !slices.Contains([]string{"", "none", "void"}, visible) && !onlyThere(visible) {
		c.errorf("device", c.src.at(w.to("env", "NVIDIA_VISIBLE_DEVICES")...), "NVIDIA_VISIBLE_DEVICES = %q: shows the task GPUs that Nomad has not reserved for it; add a device block to the task's resources", visible)
	}
	if given && w.gpus() > 0 {
		c.errorf("device", c.src.at(w.to("env", "NVIDIA_VISIBLE_DEVICES")...), "NVIDIA_VISIBLE_DEVICES is what Nomad's device plugin sets for the reserved GPUs; leave it out")
	}
	if w.task.Driver == "podman" && w.gpus() > 0 && w.task.Config["devices"] == nil {
		c.errorf("device", c.src.at(w.to("resources", "device")...), `podman's driver does not pass reserved GPUs on by itself; name them in devices by CDI: devices = ["nvidia.com/gpu=${NVIDIA_VISIBLE_DEVICES}"] for one`)
	}
}
