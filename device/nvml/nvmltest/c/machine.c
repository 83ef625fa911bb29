/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static void add_links(struct gpu *g, const char *value)
{
	char to[32];
	int count = 0;

	if (sscanf(value, "%31s %d", to, &count) != 2)
		return;
	if (g->nlinks < 0)
		g->nlinks = 0;
	while (count-- > 0 && g->nlinks < MAX_LINKS) {
		struct link *l = &g->links[g->nlinks++];
		l->kind = strcmp(to, "switch") == 0 ? LINK_SWITCH
			: strcmp(to, "down") == 0   ? LINK_NONE
						    : LINK_GPU;
		copy(l->bus, sizeof l->bus, to);
	}
}

static void set_fabric(struct gpu *g, const char *value)
{
	char hex[64] = "";

	sscanf(value, "%63s %u %d %u %x", hex, &g->fabric_clique, &g->fabric, &g->fabric_status, &g->fabric_health);
	for (int i = 0; i < 16; i++) {
		unsigned int byte = 0;
		sscanf(hex + 2 * i, "%2x", &byte);
		g->fabric_cluster[i] = (unsigned char)byte;
	}
}

static void add_mig(struct gpu *g, const char *value)
{
	struct mig *m = &g->migs[g->nmigs];

	g->mig_mode = 1;
	if (g->nmigs < MAX_MIG &&
	    sscanf(value, "%31s %95s %llu %u %u", m->profile, m->uuid, &m->memory, &m->gi, &m->ci) == 5)
		g->nmigs++;
}

/* Sets one thing of a GPU. Unknown keys are reported, for they are mistakes. */
static int gpu_set(struct gpu *g, const char *key, const char *value)
{
	long n = strtol(value, NULL, 10);

#define STRING(k, field) if (strcmp(key, k) == 0) { copy(g->field, sizeof g->field, value); return 0; }
#define NUMBER(field) if (strcmp(key, #field) == 0) { g->field = n; return 0; }
	STRING("name", name)
	STRING("bus", bus)
	STRING("switch", pcie_switch)
	STRING("root", pcie_root)
	NUMBER(minor) NUMBER(numa) NUMBER(arch)
	NUMBER(memory) NUMBER(memory_used) NUMBER(bar1) NUMBER(bar1_used)
	NUMBER(power) NUMBER(power_limit) NUMBER(core_clock) NUMBER(memory_clock)
	NUMBER(temperature) NUMBER(util) NUMBER(memory_util)
	NUMBER(ecc) NUMBER(display) NUMBER(persistence)
	NUMBER(ecc_corrected) NUMBER(ecc_uncorrected)
	NUMBER(retired_pending) NUMBER(remap_pending) NUMBER(remap_failed) NUMBER(recovery)
	NUMBER(throttle) NUMBER(nvlink_version) NUMBER(nvlink_mbps) NUMBER(nvlink_kibps) NUMBER(pcie_kibps)
	NUMBER(pcie_narrow)
	NUMBER(mig_mode) NUMBER(error) NUMBER(hang) NUMBER(gone)
#undef STRING
#undef NUMBER
	if (strcmp(key, "pcie") == 0)
		sscanf(value, "%u %u", &g->pcie_gen, &g->pcie_width);
	else if (strcmp(key, "compute") == 0)
		sscanf(value, "%d %d", &g->compute_major, &g->compute_minor);
	else if (strcmp(key, "links") == 0)
		add_links(g, value);
	else if (strcmp(key, "nolinks") == 0)
		g->nlinks = n;
	else if (strcmp(key, "fabric") == 0)
		set_fabric(g, value);
	else if (strcmp(key, "mig") == 0)
		add_mig(g, value);
	else if (strcmp(key, "nomig") == 0)
		g->nmigs = 0;
	else
		return -1;
	return 0;
}

static struct gpu *find(struct machine *m, const char *uuid)
{
	for (int i = 0; i < m->ngpus; i++)
		if (strcmp(m->gpus[i].uuid, uuid) == 0)
			return &m->gpus[i];
	return NULL;
}

static void add_event(struct machine *m, const char *value)
{
	struct event *e = &m->events[m->nevents];

	if (m->nevents < MAX_EVENTS &&
	    sscanf(value, "%llu %95s %llu %llu %u %u", &e->seq, e->uuid, &e->type, &e->data, &e->gi, &e->ci) == 6)
		m->nevents++;
}

int machine_read(const char *path, struct machine *m)
{
	static struct gpu every; /* only read under the library's lock */
	struct gpu *g = &every;
	char line[512];
	FILE *f = fopen(path, "r");

	if (f == NULL) {
		perror(path);
		return -1;
	}
	memset(m, 0, sizeof *m);
	memset(&every, 0, sizeof every);
	every.numa = every.nlinks = every.mig_mode = every.ecc = -1;
	every.display = every.persistence = 0;
	while (fgets(line, sizeof line, f) != NULL) {
		char *key = line + strspn(line, " \t"), *value;

		key[strcspn(key, "\r\n")] = 0;
		if (*key == 0 || *key == '#')
			continue;
		value = key + strcspn(key, " \t");
		if (*value != 0) {
			*value++ = 0;
			value += strspn(value, " \t");
		}
		if (strcmp(key, "driver") == 0)
			copy(m->driver, sizeof m->driver, value);
		else if (strcmp(key, "cuda") == 0)
			m->cuda = atoi(value);
		else if (strcmp(key, "init") == 0)
			m->init = atoi(value);
		else if (strcmp(key, "hang_all") == 0)
			m->hang = atoi(value);
		else if (strcmp(key, "p2p") == 0)
			m->p2p_all = strcmp(value, "all") == 0;
		else if (strcmp(key, "every") == 0)
			g = &every;
		else if (strcmp(key, "event") == 0)
			add_event(m, value);
		else if (strcmp(key, "gpu") == 0 && m->ngpus < MAX_GPUS) {
			g = &m->gpus[m->ngpus];
			*g = every;
			g->minor = m->ngpus++;
			copy(g->uuid, sizeof g->uuid, value);
		} else if (strcmp(key, "again") == 0) {
			if ((g = find(m, value)) == NULL) {
				fprintf(stderr, "nvmltest: %s: again %s: no such GPU\n", path, value);
				g = &every;
			}
		} else if (gpu_set(g, key, value) != 0)
			fprintf(stderr, "nvmltest: %s: unknown key %s\n", path, key);
	}
	fclose(f);
	return 0;
}
