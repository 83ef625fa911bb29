/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 *
 * What all parts of the stub share. Functions, structures and numbers are
 * those of NVML's public interface.
 */
#ifndef STUB_H
#define STUB_H

#include "machine.h"

#include <pthread.h>

#define OK 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define TIMEOUT 10
#define GPU_IS_LOST 15
#define ARGUMENT_VERSION_MISMATCH 25

typedef int ret_t;

/* A handle stays good for as long as the process lives: it only names. */
struct device {
	char uuid[96];
	int mig; /* index in the parent's instances + 1; 0 for a GPU */
	struct device *next;
};
typedef struct device *device_t;

struct pci_info {
	char bus_legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
};

struct memory { unsigned long long total, free, used; };

/* Guards all that follows. */
extern pthread_mutex_t stub_lock;
/* The machine as last read. */
extern struct machine stub_machine;
/* How often nvmlInit was called more than nvmlShutdown. */
extern int stub_initialized;

/* Counts a call. */
void stub_count(void);

/* Reads the machine again if its file changed. Call it under the lock. */
void stub_refresh(void);

/* Returns the handle of a GPU, or of its instance mig - 1. Call it under the
 * lock. */
device_t stub_handle(const char *uuid, int mig);

/* Begins a call: counts it, reads the machine, hangs while the
 * machine says so. With a
 * device, G gets a copy of its GPU as it is now. */
ret_t stub_enter(device_t d, struct gpu *g);

/* A call on a device: G is a copy of the GPU as it is now. */
#define DEVICE(d)                                  \
	struct gpu G;                              \
	ret_t ret_;                                \
	if ((d) == NULL)                           \
		return INVALID_ARGUMENT;           \
	if ((ret_ = stub_enter((d), &G)) != OK)         \
		return ret_;                       \
	if ((d)->mig > G.nmigs)                    \
		return NOT_FOUND

/* The same for what MIG instances do not have. */
#define WHOLE(d)        \
	DEVICE(d);      \
	if ((d)->mig)   \
		return NOT_SUPPORTED

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

#endif
