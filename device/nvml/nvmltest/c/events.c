/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 */
#include "stub.h"

#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

struct event_set {
	unsigned long long seen;
	int changes; /* can be read when the machine file may have changed */
	char uuids[MAX_GPUS][96];
	unsigned long long types[MAX_GPUS];
	int n;
};
typedef struct event_set *event_set_t;

struct event_data {
	device_t device;
	unsigned long long type, data;
	unsigned int gi, ci;
};

/* The machine file is replaced by renaming, so its folder is watched. */
static int watch_machine(void)
{
	const char *path = getenv("NVMLTEST_MACHINE");
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char copy[4096];

	snprintf(copy, sizeof copy, "%s", path == NULL ? "." : path);
	if (fd >= 0)
		inotify_add_watch(fd, dirname(copy), IN_MOVED_TO | IN_CLOSE_WRITE);
	return fd;
}

ret_t nvmlEventSetCreate(event_set_t *v)
{
	ret_t ret = stub_enter(NULL, NULL);

	if (ret != OK)
		return ret;
	*v = calloc(1, sizeof **v);
	(*v)->changes = watch_machine();
	/* earlier events are not reported */
	for (int i = 0; i < stub_machine.nevents; i++)
		if (stub_machine.events[i].seq > (*v)->seen)
			(*v)->seen = stub_machine.events[i].seq;
	return OK;
}

ret_t nvmlEventSetFree(event_set_t s)
{
	stub_count();
	if (s->changes >= 0)
		close(s->changes);
	free(s);
	return OK;
}

static unsigned long long supported(const struct gpu *g) { return g->ecc == 1 ? 0x1b : 0x18; }

ret_t nvmlDeviceGetSupportedEventTypes(device_t d, unsigned long long *v)
{
	WHOLE(d);
	*v = supported(&G);
	return OK;
}

ret_t nvmlDeviceRegisterEvents(device_t d, unsigned long long types, event_set_t s)
{
	WHOLE(d);
	if (types & ~supported(&G))
		return NOT_SUPPORTED;
	if (s->n == MAX_GPUS)
		return INVALID_ARGUMENT;
	s->types[s->n] = types;
	snprintf(s->uuids[s->n++], sizeof s->uuids[0], "%s", G.uuid);
	return OK;
}

static int registered(event_set_t s, const struct event *e)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->uuids[i], e->uuid) == 0 && (s->types[i] & e->type))
			return 1;
	return 0;
}

/* Milliseconds of a clock that does not jump. */
static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* The next event that the set has not seen. Call it under the lock. */
static int next_event(event_set_t s, struct event_data *v)
{
	for (int i = 0; i < stub_machine.nevents; i++) {
		struct event *e = &stub_machine.events[i];

		if (e->seq <= s->seen)
			continue;
		s->seen = e->seq;
		if (!registered(s, e))
			continue;
		v->device = stub_handle(e->uuid, 0);
		v->type = e->type;
		v->data = e->data;
		v->gi = e->gi;
		v->ci = e->ci;
		return 1;
	}
	return 0;
}

ret_t nvmlEventSetWait_v2(event_set_t s, struct event_data *v, unsigned int timeout)
{
	ret_t ret = stub_enter(NULL, NULL);
	long long end = now() + timeout;
	int found = 0;

	if (ret != OK)
		return ret;
	memset(v, 0, sizeof *v);
	for (;;) {
		struct pollfd p = {.fd = s->changes, .events = POLLIN};
		char changes[4096];
		long long left;

		pthread_mutex_lock(&stub_lock);
		stub_refresh();
		ret = stub_machine.init;
		if (ret == OK)
			found = next_event(s, v);
		pthread_mutex_unlock(&stub_lock);
		left = end - now();
		if (ret != OK || found || left <= 0)
			break;
		poll(&p, 1, (int)left);
		while (read(s->changes, changes, sizeof changes) > 0)
			;
	}
	return ret != OK || found ? ret : TIMEOUT;
}
