/* Copyright (c) Kolo authors
 * SPDX-License-Identifier: MPL-2.0
 *
 * A stub of libnvidia-ml.so.1 with the C interface of NVML, for tests on
 * machines without a GPU. What it answers comes from the file that
 * NVMLTEST_MACHINE names, which is read again when it changes. Calls are
 * counted in the file that NVMLTEST_CALLS names, if any.
 */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ret_t nvmlInit_v2(void)
{
	ret_t ret;

	pthread_mutex_lock(&stub_lock);
	stub_initialized++;
	pthread_mutex_unlock(&stub_lock);
	ret = stub_enter(NULL, NULL);
	if (ret != OK) {
		pthread_mutex_lock(&stub_lock);
		stub_initialized--;
		pthread_mutex_unlock(&stub_lock);
	}
	return ret;
}

ret_t nvmlInit(void) { return nvmlInit_v2(); }

ret_t nvmlShutdown(void)
{
	ret_t ret = UNINITIALIZED;

	stub_count();
	pthread_mutex_lock(&stub_lock);
	if (stub_initialized > 0) {
		stub_initialized--;
		ret = OK;
	}
	pthread_mutex_unlock(&stub_lock);
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
	ret_t ret = stub_enter(NULL, NULL);

	if (ret == OK)
		snprintf(v, n, "%s", stub_machine.driver);
	return ret;
}

ret_t nvmlSystemGetCudaDriverVersion(int *v)
{
	ret_t ret = stub_enter(NULL, NULL);

	*v = stub_machine.cuda;
	return ret;
}

ret_t nvmlDeviceGetCount_v2(unsigned int *n)
{
	ret_t ret = stub_enter(NULL, NULL);

	*n = 0;
	for (int i = 0; ret == OK && i < stub_machine.ngpus; i++)
		*n += !stub_machine.gpus[i].gone;
	return ret;
}

ret_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *d)
{
	ret_t ret = stub_enter(NULL, NULL);

	if (ret != OK)
		return ret;
	pthread_mutex_lock(&stub_lock);
	ret = INVALID_ARGUMENT;
	for (int i = 0; i < stub_machine.ngpus; i++) {
		if (stub_machine.gpus[i].gone || index-- != 0)
			continue;
		*d = stub_handle(stub_machine.gpus[i].uuid, 0);
		ret = OK;
		break;
	}
	pthread_mutex_unlock(&stub_lock);
	return ret;
}

ret_t nvmlDeviceGetHandleByUUID(const char *uuid, device_t *d)
{
	ret_t ret = stub_enter(NULL, NULL);

	if (ret != OK)
		return ret;
	pthread_mutex_lock(&stub_lock);
	ret = NOT_FOUND;
	for (int i = 0; i < stub_machine.ngpus && ret != OK; i++) {
		struct gpu *g = &stub_machine.gpus[i];
		int mig = -1;

		if (g->gone)
			continue;
		if (strcmp(g->uuid, uuid) == 0)
			mig = 0;
		for (int j = 0; j < g->nmigs; j++)
			if (strcmp(g->migs[j].uuid, uuid) == 0)
				mig = j + 1;
		if (mig >= 0) {
			*d = stub_handle(g->uuid, mig);
			ret = OK;
		}
	}
	pthread_mutex_unlock(&stub_lock);
	return ret;
}
