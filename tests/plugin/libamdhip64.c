// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Stands for ROCm's library: one gfx942 whose memory is that of the host, unless told otherwise.
 *
 * Only what the package calls is here.  hip-python asks for each function when it is called.
 */
#include <stdlib.h>
#include <string.h>

enum { NAME = 1160, SIZE = 1472 }; /* of gcnArchName in hipDeviceProp_tR0600, and of that */

#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef ARCH
#define ARCH "gfx942:sramecc+:xnack-"
#endif

int hipGetDeviceCount(int *count) { return *count = DEVICES, 0; }
int hipGetDevice(int *device) { return *device = 0, 0; }
int hipStreamGetDevice(void *stream, int *device) { return (void)stream, *device = 0, 0; }

int hipGetDevicePropertiesR0600(char *properties, int device)
{
    if (device) return 101; /* hipErrorInvalidDevice */
    memset(properties, 0, SIZE);
    strcpy(properties + NAME, ARCH);
    return 0;
}

int hipMalloc(void **memory, size_t size) { return (*memory = malloc(size)) ? 0 : 2; }
int hipFree(void *memory) { return free(memory), 0; }
int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
    return (void)kind, memcpy(to, from, size), 0;
}

int hipStreamCreate(void **stream) { return (*stream = malloc(1)) ? 0 : 2; }
int hipStreamDestroy(void *stream) { return free(stream), 0; }
int hipStreamSynchronize(void *stream) { return (void)stream, 0; }

int hipSetDevice(int device) { return device ? 101 : 0; }
int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    return (void)kind, (void)stream, memcpy(to, from, size), 0;
}

int hipEventCreate(void **event) { return (*event = malloc(1)) ? 0 : 2; }
int hipEventDestroy(void *event) { return free(event), 0; }
int hipEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }
int hipEventSynchronize(void *event) { return (void)event, 0; }
int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return (void)stream, (void)event, (void)flags, 0;
}
