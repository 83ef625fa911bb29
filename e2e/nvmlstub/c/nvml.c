/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 *
 * A stand-in for libnvidia-ml.so.1 with the C interface of NVML, for tests on
 * machines without a GPU. What it answers comes from the file that
 * NVMLSTUB_MACHINE names, which is read again when it changes. Calls are
 * counted in the file that NVMLSTUB_CALLS names, if any.
 *
 * Functions, structures and numbers are those of NVML's public interface.
 */
#include "machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OK 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define TIMEOUT 10
#define GPU_IS_LOST 15

typedef int ret_t;

/* A handle stays good for as long as the process lives: it only names. */
struct device {
	char uuid[96];
	int mig; /* index in the parent's instances + 1; 0 for a GPU */
	struct device *next;
};
typedef struct device *device_t;

struct event_set {
	unsigned long long seen;
	char uuids[MAX_GPUS][96];
	int n;
};
typedef struct event_set *event_set_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct machine machine;
static struct timespec read_at;
static off_t read_size = -1;
static ino_t read_ino;
static device_t devices;
static int initialized;

/* ---- calls and the machine ------------------------------------------- */

/* Counts a call in the file of the moment: a test that has this library loaded
 * goes from one machine to the next. */
static void count_call(void)
{
	static volatile unsigned long long *calls;
	static char mapped[4096];
	const char *path = getenv("NVMLSTUB_CALLS");
	int fd;
	void *p;

	if (path == NULL)
		return;
	pthread_mutex_lock(&lock);
	if (strcmp(path, mapped) != 0) {
		snprintf(mapped, sizeof mapped, "%s", path);
		calls = NULL;
		fd = open(path, O_RDWR | O_CREAT, 0600);
		if (fd >= 0 && ftruncate(fd, sizeof *calls) == 0) {
			p = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (p != MAP_FAILED)
				calls = p;
		}
		if (fd >= 0)
			close(fd);
	}
	if (calls != NULL)
		__sync_fetch_and_add(calls, 1);
	pthread_mutex_unlock(&lock);
}

/* Reads the machine again if its file changed. Called under the lock. */
static void refresh(void)
{
	const char *path = getenv("NVMLSTUB_MACHINE");
	struct stat st;

	if (path == NULL || stat(path, &st) != 0) {
		memset(&machine, 0, sizeof machine);
		machine.init = 9; /* as if the driver were not loaded */
		read_size = -1;
		return;
	}
	if (st.st_size == read_size && st.st_ino == read_ino && st.st_mtim.tv_sec == read_at.tv_sec &&
	    st.st_mtim.tv_nsec == read_at.tv_nsec)
		return;
	if (machine_read(path, &machine) == 0) {
		read_at = st.st_mtim;
		read_size = st.st_size;
		read_ino = st.st_ino;
	}
}

static struct gpu *lookup(const char *uuid)
{
	for (int i = 0; i < machine.ngpus; i++)
		if (strcmp(machine.gpus[i].uuid, uuid) == 0 && !machine.gpus[i].gone)
			return &machine.gpus[i];
	return NULL;
}

/* Begins a call: counts it, reads the machine, hangs while told to. */
static ret_t enter(device_t d, struct gpu *g)
{
	count_call();
	for (;;) {
		struct gpu *now = NULL;
		ret_t ret = OK;
		int hang;

		pthread_mutex_lock(&lock);
		refresh();
		hang = machine.hang;
		if (machine.init != 0)
			ret = machine.init;
		else if (!initialized)
			ret = UNINITIALIZED;
		else if (d != NULL) {
			now = lookup(d->uuid);
			if (now == NULL)
				ret = GPU_IS_LOST;
			else {
				hang |= now->hang;
				ret = now->error;
				if (g != NULL)
					*g = *now;
			}
		}
		pthread_mutex_unlock(&lock);
		if (!hang)
			return ret;
		usleep(20000);
	}
}

static device_t handle(const char *uuid, int mig)
{
	device_t d;

	for (d = devices; d != NULL; d = d->next)
		if (strcmp(d->uuid, uuid) == 0 && d->mig == mig)
			return d;
	d = calloc(1, sizeof *d);
	snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
	d->mig = mig;
	d->next = devices;
	devices = d;
	return d;
}

/* A call on a device: G is a copy of the GPU as it is now. */
#define DEVICE(d)                                  \
	struct gpu G;                              \
	ret_t ret_;                                \
	if ((d) == NULL)                           \
		return INVALID_ARGUMENT;           \
	if ((ret_ = enter((d), &G)) != OK)         \
		return ret_;                       \
	if ((d)->mig > G.nmigs)                    \
		return NOT_FOUND

/* The same for what MIG instances do not have. */
#define WHOLE(d)        \
	DEVICE(d);      \
	if ((d)->mig)   \
		return NOT_SUPPORTED

/* ---- library ---------------------------------------------------------- */

ret_t nvmlInit_v2(void)
{
	ret_t ret;

	pthread_mutex_lock(&lock);
	initialized++;
	pthread_mutex_unlock(&lock);
	ret = enter(NULL, NULL);
	if (ret != OK) {
		pthread_mutex_lock(&lock);
		initialized--;
		pthread_mutex_unlock(&lock);
	}
	return ret;
}

ret_t nvmlInit(void) { return nvmlInit_v2(); }

ret_t nvmlShutdown(void)
{
	ret_t ret = UNINITIALIZED;

	count_call();
	pthread_mutex_lock(&lock);
	if (initialized > 0) {
		initialized--;
		ret = OK;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

const char *nvmlErrorString(ret_t r)
{
	static const char *texts[] = {
		[0] = "Success", [1] = "Uninitialized", [2] = "Invalid Argument", [3] = "Not Supported",
		[6] = "Not Found", [9] = "Driver Not Loaded", [10] = "Timeout",
		[15] = "GPU is lost", [16] = "GPU requires reset",
		[18] = "Driver/library version mismatch",
	};

	if (r < 0 || r > 18 || texts[r] == NULL)
		return "Unknown Error";
	return texts[r];
}

ret_t nvmlSystemGetDriverVersion(char *v, unsigned int n)
{
	ret_t ret = enter(NULL, NULL);

	if (ret == OK)
		snprintf(v, n, "%s", machine.driver);
	return ret;
}

ret_t nvmlSystemGetCudaDriverVersion(int *v)
{
	ret_t ret = enter(NULL, NULL);

	*v = machine.cuda;
	return ret;
}

ret_t nvmlDeviceGetCount_v2(unsigned int *n)
{
	ret_t ret = enter(NULL, NULL);

	*n = 0;
	for (int i = 0; ret == OK && i < machine.ngpus; i++)
		*n += !machine.gpus[i].gone;
	return ret;
}

ret_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *d)
{
	ret_t ret = enter(NULL, NULL);

	if (ret != OK)
		return ret;
	pthread_mutex_lock(&lock);
	ret = INVALID_ARGUMENT;
	for (int i = 0; i < machine.ngpus; i++) {
		if (machine.gpus[i].gone || index-- != 0)
			continue;
		*d = handle(machine.gpus[i].uuid, 0);
		ret = OK;
		break;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

ret_t nvmlDeviceGetHandleByUUID(const char *uuid, device_t *d)
{
	ret_t ret = enter(NULL, NULL);

	if (ret != OK)
		return ret;
	pthread_mutex_lock(&lock);
	ret = NOT_FOUND;
	for (int i = 0; i < machine.ngpus && ret != OK; i++) {
		struct gpu *g = &machine.gpus[i];
		int mig = -1;

		if (g->gone)
			continue;
		if (strcmp(g->uuid, uuid) == 0)
			mig = 0;
		for (int j = 0; j < g->nmigs; j++)
			if (strcmp(g->migs[j].uuid, uuid) == 0)
				mig = j + 1;
		if (mig >= 0) {
			*d = handle(g->uuid, mig);
			ret = OK;
		}
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- facts ------------------------------------------------------------ */

struct pci_info {
	char bus_legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
};

struct memory { unsigned long long total, free, used; };

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

#define UINT(function, field)                        \
	ret_t function(device_t d, unsigned int *v)  \
	{                                            \
		WHOLE(d);                            \
		*v = (unsigned int)G.field;          \
		return OK;                           \
	}

/* Says "not supported" for -1. */
#define STATE(function, field)                       \
	ret_t function(device_t d, int *v)           \
	{                                            \
		WHOLE(d);                            \
		if (G.field < 0)                     \
			return NOT_SUPPORTED;        \
		*v = G.field;                        \
		return OK;                           \
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

/* ---- MIG -------------------------------------------------------------- */

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
	pthread_mutex_lock(&lock);
	*v = handle(G.uuid, (int)index + 1);
	pthread_mutex_unlock(&lock);
	return OK;
}

ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t d, device_t *v)
{
	DEVICE(d);
	if (!d->mig)
		return INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	*v = handle(G.uuid, 0);
	pthread_mutex_unlock(&lock);
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

/* ---- how GPUs are joined ---------------------------------------------- */

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
	if ((ret_ = enter(other, &b)) != OK)
		return ret_;
	*v = level_of(&G, &b);
	return OK;
}

ret_t nvmlDeviceGetP2PStatus(device_t d, device_t other, int index, int *v)
{
	int nvlink = 0;
	struct gpu b;
	WHOLE(d);
	if ((ret_ = enter(other, &b)) != OK)
		return ret_;
	for (int i = 0; i < G.nlinks; i++)
		nvlink |= G.links[i].kind == LINK_SWITCH ||
			  (G.links[i].kind == LINK_GPU && strcmp(G.links[i].bus, b.bus) == 0);
	if (index == 2)
		*v = nvlink ? 0 : 5;
	else
		*v = nvlink || machine.p2p_all || level_of(&G, &b) < 50 ? 0 : 1;
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
#endif

/* ---- readings --------------------------------------------------------- */

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
	case 197: case 198: ANSWER(g->arch >= 7, counted(g->pcie_kibps) << 10); break;
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

/* ---- events ----------------------------------------------------------- */

struct event_data {
	device_t device;
	unsigned long long type, data;
	unsigned int gi, ci;
};

ret_t nvmlEventSetCreate(event_set_t *v)
{
	ret_t ret = enter(NULL, NULL);

	if (ret != OK)
		return ret;
	*v = calloc(1, sizeof **v);
	/* what happened before is not told */
	for (int i = 0; i < machine.nevents; i++)
		if (machine.events[i].seq > (*v)->seen)
			(*v)->seen = machine.events[i].seq;
	return OK;
}

ret_t nvmlEventSetFree(event_set_t s)
{
	count_call();
	free(s);
	return OK;
}

ret_t nvmlDeviceGetSupportedEventTypes(device_t d, unsigned long long *v)
{
	WHOLE(d);
	*v = G.ecc == 1 ? 0x1b : 0x18;
	return OK;
}

ret_t nvmlDeviceRegisterEvents(device_t d, unsigned long long types, event_set_t s)
{
	WHOLE(d);
	(void)types;
	if (s->n == MAX_GPUS)
		return INVALID_ARGUMENT;
	snprintf(s->uuids[s->n++], sizeof s->uuids[0], "%s", G.uuid);
	return OK;
}

static int registered(event_set_t s, const char *uuid)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->uuids[i], uuid) == 0)
			return 1;
	return 0;
}

ret_t nvmlEventSetWait_v2(event_set_t s, struct event_data *v, unsigned int timeout)
{
	ret_t ret = enter(NULL, NULL);

	memset(v, 0, sizeof *v);
	for (unsigned int waited = 0; ret == OK; waited += 100) {
		pthread_mutex_lock(&lock);
		refresh();
		ret = machine.init;
		for (int i = 0; ret == OK && i < machine.nevents; i++) {
			struct event *e = &machine.events[i];
			if (e->seq <= s->seen)
				continue;
			s->seen = e->seq;
			if (!registered(s, e->uuid))
				continue;
			v->device = handle(e->uuid, 0);
			v->type = e->type;
			v->data = e->data;
			v->gi = e->gi;
			v->ci = e->ci;
			pthread_mutex_unlock(&lock);
			return OK;
		}
		pthread_mutex_unlock(&lock);
		if (ret == OK && waited >= timeout)
			return TIMEOUT;
		usleep(timeout - waited < 100 ? (timeout - waited) * 1000 : 100000);
	}
	return ret;
}
