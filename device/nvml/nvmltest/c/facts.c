/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ret_t nvmlDeviceGetUUID(device_t d, char *v, unsigned int n)
{
	DEVICE(d);
	snprintf(v, n, "%s", d->mig ? G.migs[d->mig - 1].uuid : G.uuid);
	return OK;
}

ret_t nvmlDeviceGetName(device_t d, char *v, unsigned int n)
{
	DEVICE(d);
	if (d->mig)
		snprintf(v, n, "%s MIG %s", G.name, G.migs[d->mig - 1].profile);
	else
		snprintf(v, n, "%s", G.name);
	return OK;
}

ret_t nvmlDeviceGetPciInfo_v3(device_t d, struct pci_info *v)
{
	DEVICE(d);
	memset(v, 0, sizeof *v);
	snprintf(v->bus_id, sizeof v->bus_id, "%s", G.bus);
	snprintf(v->bus_legacy, sizeof v->bus_legacy, "%.12s", G.bus + 4);
	sscanf(G.bus, "%x:%x:%x", &v->domain, &v->bus, &v->device);
	return OK;
}

ret_t nvmlDeviceGetPciInfo(device_t d, struct pci_info *v) { return nvmlDeviceGetPciInfo_v3(d, v); }
ret_t nvmlDeviceGetPciInfo_v2(device_t d, struct pci_info *v) { return nvmlDeviceGetPciInfo_v3(d, v); }

ret_t nvmlDeviceGetMemoryInfo(device_t d, struct memory *v)
{
	DEVICE(d);
	v->total = (d->mig ? G.migs[d->mig - 1].memory : G.memory) << 20;
	v->used = (d->mig ? 13 : G.memory_used) << 20;
	v->free = v->total - v->used;
	return OK;
}

ret_t nvmlDeviceGetBAR1MemoryInfo(device_t d, struct memory *v)
{
	WHOLE(d);
	/* the order differs from that of memory: total, free, used */
	v->total = G.bar1 << 20;
	v->free = (G.bar1 - G.bar1_used) << 20;
	v->used = G.bar1_used << 20;
	return OK;
}

UINT(nvmlDeviceGetMinorNumber, minor)
UINT(nvmlDeviceGetEnforcedPowerLimit, power_limit)
UINT(nvmlDeviceGetPowerUsage, power)
UINT(nvmlDeviceGetMaxPcieLinkGeneration, pcie_gen)
UINT(nvmlDeviceGetMaxPcieLinkWidth, pcie_width)
UINT(nvmlDeviceGetArchitecture, arch)
STATE(nvmlDeviceGetDisplayMode, display)
STATE(nvmlDeviceGetPersistenceMode, persistence)
#ifndef OLD_DRIVER

ret_t nvmlDeviceGetMemoryAffinity(device_t d, unsigned int n, unsigned long *v, int scope)
{
	WHOLE(d);
	if (n == 0 || scope < 0 || scope > 1)
		return INVALID_ARGUMENT;
	if (G.numa < 0)
		return NOT_SUPPORTED;
	memset(v, 0, n * sizeof *v);
	v[0] = 1UL << G.numa;
	return OK;
}
#endif

static ret_t clock_of(device_t d, int kind, unsigned int *v)
{
	WHOLE(d);
	*v = kind == 2 ? G.memory_clock : G.core_clock;
	return OK;
}

ret_t nvmlDeviceGetMaxClockInfo(device_t d, int kind, unsigned int *v) { return clock_of(d, kind, v); }
ret_t nvmlDeviceGetClockInfo(device_t d, int kind, unsigned int *v) { return clock_of(d, kind, v); }

ret_t nvmlDeviceGetEccMode(device_t d, int *current, int *pending)
{
	WHOLE(d);
	if (G.ecc < 0)
		return NOT_SUPPORTED;
	*current = *pending = G.ecc;
	return OK;
}

ret_t nvmlDeviceGetCudaComputeCapability(device_t d, int *major, int *minor)
{
	DEVICE(d);
	*major = G.compute_major;
	*minor = G.compute_minor;
	return OK;
}

ret_t nvmlDeviceGetMigMode(device_t d, unsigned int *current, unsigned int *pending)
{
	WHOLE(d);
	if (G.mig_mode < 0)
		return NOT_SUPPORTED;
	*current = *pending = (unsigned int)G.mig_mode;
	return OK;
}

ret_t nvmlDeviceGetMaxMigDeviceCount(device_t d, unsigned int *v)
{
	WHOLE(d);
	*v = G.mig_mode < 0 ? 0 : MAX_MIG;
	return OK;
}

ret_t nvmlDeviceGetMigDeviceHandleByIndex(device_t d, unsigned int index, device_t *v)
{
	WHOLE(d);
	if ((int)index >= G.nmigs)
		return NOT_FOUND;
	pthread_mutex_lock(&stub_lock);
	*v = stub_handle(G.uuid, (int)index + 1);
	pthread_mutex_unlock(&stub_lock);
	return OK;
}

ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t d, device_t *v)
{
	DEVICE(d);
	if (!d->mig)
		return INVALID_ARGUMENT;
	pthread_mutex_lock(&stub_lock);
	*v = stub_handle(G.uuid, 0);
	pthread_mutex_unlock(&stub_lock);
	return OK;
}

ret_t nvmlDeviceGetGpuInstanceId(device_t d, unsigned int *v)
{
	DEVICE(d);
	if (!d->mig)
		return NOT_SUPPORTED;
	*v = G.migs[d->mig - 1].gi;
	return OK;
}

ret_t nvmlDeviceGetComputeInstanceId(device_t d, unsigned int *v)
{
	DEVICE(d);
	if (!d->mig)
		return NOT_SUPPORTED;
	*v = G.migs[d->mig - 1].ci;
	return OK;
}
