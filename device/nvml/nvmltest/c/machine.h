/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 *
 * The machine that the stub library simulates, as read from the
 * file that NVMLTEST_MACHINE names. See doc.go for the format.
 */
#ifndef MACHINE_H
#define MACHINE_H

#define MAX_GPUS 16
#define MAX_LINKS 18
#define MAX_MIG 7
#define MAX_EVENTS 64

enum link_kind { LINK_NONE, LINK_GPU, LINK_SWITCH };

struct link {
	enum link_kind kind;
	char bus[32];
};

struct mig {
	char uuid[96];
	char profile[32];
	unsigned long long memory; /* MiB */
	unsigned int gi, ci;
};

struct gpu {
	char uuid[96], name[96], bus[32];
	char pcie_switch[32], pcie_root[32];
	int minor, numa, arch, compute_major, compute_minor;
	unsigned int pcie_gen, pcie_width;
	unsigned long long memory, memory_used, bar1, bar1_used; /* MiB */
	unsigned int power, power_limit;                         /* mW */
	unsigned int core_clock, memory_clock;                   /* MHz */
	unsigned int temperature, util, memory_util;
	int ecc, display, persistence; /* -1: not supported */
	unsigned long long ecc_corrected, ecc_uncorrected;
	unsigned int retired_pending, remap_pending, remap_failed, recovery;
	unsigned long long throttle;
	unsigned int nvlink_version, nvlink_mbps, nvlink_kibps, pcie_kibps;
	unsigned int pcie_narrow; /* PCIe counters have 32 bits */
	struct link links[MAX_LINKS];
	int nlinks; /* -1: no NVLink hardware */
	int fabric; /* state; 0: not supported */
	unsigned int fabric_status, fabric_clique, fabric_health;
	unsigned char fabric_cluster[16];
	int mig_mode; /* -1: not supported */
	struct mig migs[MAX_MIG];
	int nmigs;
	int error; /* what every call on this GPU returns */
	int hang;  /* calls on this GPU hang */
	int gone;  /* not listed any more */
};

struct event {
	unsigned long long seq, type, data;
	char uuid[96];
	unsigned int gi, ci;
};

struct machine {
	char driver[80];
	int cuda;
	int init; /* what every call returns while the driver is unavailable */
	int hang; /* every call hangs */
	int p2p_all;
	struct gpu gpus[MAX_GPUS];
	int ngpus;
	struct event events[MAX_EVENTS];
	int nevents;
};

/* Reads the file at path into m. Returns 0, or -1 with a word on stderr. */
int machine_read(const char *path, struct machine *m);

#endif
