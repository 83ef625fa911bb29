/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ret_t link_of(device_t d, unsigned int index, struct link *l, struct gpu *g)
{
	WHOLE(d);
	if (G.nlinks < 0)
		return NOT_SUPPORTED;
	if ((int)index >= G.nlinks)
		return INVALID_ARGUMENT;
	*l = G.links[index];
	*g = G;
	return OK;
}

ret_t nvmlDeviceGetNvLinkState(device_t d, unsigned int index, int *v)
{
	struct link l;
	struct gpu g;
	ret_t ret = link_of(d, index, &l, &g);

	if (ret == OK)
		*v = l.kind != LINK_NONE;
	return ret;
}

ret_t nvmlDeviceGetNvLinkVersion(device_t d, unsigned int index, unsigned int *v)
{
	struct link l;
	struct gpu g;
	ret_t ret = link_of(d, index, &l, &g);

	if (ret == OK)
		*v = g.nvlink_version;
	return ret;
}

ret_t nvmlDeviceGetNvLinkRemoteDeviceType(device_t d, unsigned int index, int *v)
{
	struct link l;
	struct gpu g;
	ret_t ret = link_of(d, index, &l, &g);

	if (ret == OK)
		*v = l.kind == LINK_SWITCH ? 2 : l.kind == LINK_GPU ? 0 : 255;
	return ret;
}

ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t d, unsigned int index, struct pci_info *v)
{
	struct link l;
	struct gpu g;
	ret_t ret = link_of(d, index, &l, &g);

	if (ret != OK)
		return ret;
	memset(v, 0, sizeof *v);
	/* a switch has an address that no GPU has */
	snprintf(v->bus_id, sizeof v->bus_id, "%s", l.kind == LINK_GPU ? l.bus : "00000000:C4:00.0");
	return OK;
}

static int level_of(const struct gpu *a, const struct gpu *b)
{
	if (a->pcie_switch[0] && strcmp(a->pcie_switch, b->pcie_switch) == 0)
		return 10;
	if (a->pcie_root[0] && strcmp(a->pcie_root, b->pcie_root) == 0)
		return 30;
	return a->numa >= 0 && a->numa == b->numa ? 40 : 50;
}

ret_t nvmlDeviceGetTopologyCommonAncestor(device_t d, device_t other, int *v)
{
	struct gpu b;
	WHOLE(d);
	if ((ret_ = stub_enter(other, &b)) != OK)
		return ret_;
	*v = level_of(&G, &b);
	return OK;
}

ret_t nvmlDeviceGetP2PStatus(device_t d, device_t other, int index, int *v)
{
	int nvlink = 0;
	struct gpu b;
	WHOLE(d);
	if ((ret_ = stub_enter(other, &b)) != OK)
		return ret_;
	for (int i = 0; i < G.nlinks; i++)
		nvlink |= G.links[i].kind == LINK_SWITCH ||
			  (G.links[i].kind == LINK_GPU && strcmp(G.links[i].bus, b.bus) == 0);
	if (index == 2)
		*v = nvlink ? 0 : 5;
	else
		*v = nvlink || stub_machine.p2p_all || level_of(&G, &b) < 50 ? 0 : 1;
	if (G.mig_mode == 1 || b.mig_mode == 1)
		*v = 2;
	return OK;
}

#ifndef OLD_DRIVER
struct fabric_info {
	unsigned char cluster[16];
	int status;
	unsigned int clique;
	unsigned char state;
};

ret_t nvmlDeviceGetGpuFabricInfo(device_t d, struct fabric_info *v)
{
	WHOLE(d);
	if (G.fabric == 0)
		return NOT_SUPPORTED;
	memcpy(v->cluster, G.fabric_cluster, sizeof v->cluster);
	v->status = (int)G.fabric_status;
	v->clique = G.fabric_clique;
	v->state = (unsigned char)G.fabric;
	return OK;
}

#ifndef NO_FABRIC_HEALTH
struct fabric_info_v2 {
	unsigned int version;
	struct fabric_info info;
	unsigned int health;
};

ret_t nvmlDeviceGetGpuFabricInfoV(device_t d, struct fabric_info_v2 *v)
{
	WHOLE(d);
	if (v->version != (2 << 24 | sizeof *v))
		return ARGUMENT_VERSION_MISMATCH;
	if (G.fabric == 0)
		return NOT_SUPPORTED;
	memcpy(v->info.cluster, G.fabric_cluster, sizeof v->info.cluster);
	v->info.status = (int)G.fabric_status;
	v->info.clique = G.fabric_clique;
	v->info.state = (unsigned char)G.fabric;
	v->health = G.fabric_health;
	return OK;
}
#endif
#endif
