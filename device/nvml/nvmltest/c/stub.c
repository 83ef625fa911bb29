/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 */
#include "stub.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;
struct machine stub_machine;
static struct timespec read_at;
static off_t read_size = -1;
static ino_t read_ino;
static device_t devices;
int stub_initialized;

/* Counts a call in the file of the moment: a test that has this library loaded
 * goes from one machine to the next. */
void stub_count(void)
{
	static volatile unsigned long long *calls;
	static char mapped[4096];
	const char *path = getenv("NVMLTEST_CALLS");
	int fd;
	void *p;

	if (path == NULL)
		return;
	pthread_mutex_lock(&stub_lock);
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
	pthread_mutex_unlock(&stub_lock);
}

void stub_refresh(void)
{
	const char *path = getenv("NVMLTEST_MACHINE");
	struct stat st;

	if (path == NULL || stat(path, &st) != 0) {
		memset(&stub_machine, 0, sizeof stub_machine);
		stub_machine.init = 9; /* as if the driver were not loaded */
		read_size = -1;
		return;
	}
	if (st.st_size == read_size && st.st_ino == read_ino && st.st_mtim.tv_sec == read_at.tv_sec &&
	    st.st_mtim.tv_nsec == read_at.tv_nsec)
		return;
	if (machine_read(path, &stub_machine) == 0) {
		read_at = st.st_mtim;
		read_size = st.st_size;
		read_ino = st.st_ino;
	}
}

static struct gpu *lookup(const char *uuid)
{
	for (int i = 0; i < stub_machine.ngpus; i++)
		if (strcmp(stub_machine.gpus[i].uuid, uuid) == 0 && !stub_machine.gpus[i].gone)
			return &stub_machine.gpus[i];
	return NULL;
}

ret_t stub_enter(device_t d, struct gpu *g)
{
	stub_count();
	for (;;) {
		struct gpu *now = NULL;
		ret_t ret = OK;
		int hang;

		pthread_mutex_lock(&stub_lock);
		stub_refresh();
		hang = stub_machine.hang;
		if (stub_machine.init != 0)
			ret = stub_machine.init;
		else if (!stub_initialized)
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
		pthread_mutex_unlock(&stub_lock);
		if (!hang)
			return ret;
		usleep(20000);
	}
}

device_t stub_handle(const char *uuid, int mig)
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
