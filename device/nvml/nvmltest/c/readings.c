/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 */
#include "stub.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct utilization { unsigned int gpu, memory; };

ret_t nvmlDeviceGetUtilizationRates(device_t d, struct utilization *v)
{
	WHOLE(d);
	v->gpu = G.util;
	v->memory = G.memory_util;
	return OK;
}

static ret_t codec(device_t d, unsigned int *v, unsigned int *period)
{
	WHOLE(d);
	*v = 0;
	*period = 167000;
	return OK;
}

ret_t nvmlDeviceGetEncoderUtilization(device_t d, unsigned int *v, unsigned int *p) { return codec(d, v, p); }
ret_t nvmlDeviceGetDecoderUtilization(device_t d, unsigned int *v, unsigned int *p) { return codec(d, v, p); }

ret_t nvmlDeviceGetTemperature(device_t d, int sensor, unsigned int *v)
{
	WHOLE(d);
	if (sensor != 0)
		return INVALID_ARGUMENT;
	*v = G.temperature;
	return OK;
}

ret_t nvmlDeviceGetCurrentClocksThrottleReasons(device_t d, unsigned long long *v)
{
	WHOLE(d);
	*v = G.throttle;
	return OK;
}

ret_t nvmlDeviceGetPcieThroughput(device_t d, int counter, unsigned int *v)
{
	WHOLE(d);
	(void)counter;
	*v = G.pcie_kibps;
	return OK;
}

struct ecc_counts { unsigned long long l1, l2, memory, registers; };

ret_t nvmlDeviceGetDetailedEccErrors(device_t d, int type, int counter, struct ecc_counts *v)
{
	(void)counter;
	WHOLE(d);
	if (G.ecc != 1)
		return NOT_SUPPORTED;
	memset(v, 0, sizeof *v);
	v->memory = type == 0 ? G.ecc_corrected : G.ecc_uncorrected;
	return OK;
}

struct field_value {
	unsigned int id, scope;
	long long time, latency;
	int type, ret;
	union {
		double d;
		unsigned int u32;
		unsigned long long u64;
	} value;
};

/* What a counter stands at that grows by so much each second. */
static unsigned long long counted(unsigned int per_second)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long long)(((double)now.tv_sec + (double)now.tv_nsec / 1e9) * per_second);
}

static void field(const struct gpu *g, struct field_value *f)
{
	int ecc = g->ecc == 1, links = g->nlinks > 0;

	f->ret = NOT_SUPPORTED;
	f->type = 3;
	f->value.u64 = 0;
#define ANSWER(when, v) do { if (when) { f->ret = OK; f->value.u64 = (v); } } while (0)
	switch (f->id) {
	case 3: ANSWER(ecc, g->ecc_corrected); break;
	case 4: ANSWER(ecc, g->ecc_uncorrected); break;
	case 7: case 9: ANSWER(ecc, 0); break;
	case 11: ANSWER(ecc, g->ecc_corrected); break;
	case 31: ANSWER(ecc, g->retired_pending); break;
	case 82: f->type = 1; ANSWER(g->arch >= 7, g->temperature + 9); break;
	case 90: f->type = 1; ANSWER(links, g->nvlink_mbps); break;
	case 138: ANSWER(links, counted(g->nvlink_kibps)); break;
	case 139: ANSWER(links, counted(g->nvlink_kibps)); break;
	case 144: f->type = 1; ANSWER(ecc && g->arch >= 7, g->remap_pending); break;
	case 145: f->type = 1; ANSWER(ecc && g->arch >= 7, g->remap_failed); break;
	case 197: case 198: f->type = g->pcie_narrow ? 1 : 3; ANSWER(g->arch >= 7, counted(g->pcie_kibps) << 10); break;
	case 230: f->type = 1; ANSWER(g->arch >= 9, g->recovery); break;
	}
#undef ANSWER
}

ret_t nvmlDeviceGetFieldValues(device_t d, int n, struct field_value *values)
{
	WHOLE(d);
	for (int i = 0; i < n; i++)
		field(&G, &values[i]);
	return OK;
}
