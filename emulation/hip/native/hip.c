// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* A library in the place of ROCm's libamdhip64.so, whose GPUs are emulated.
 *
 * Memory, streams, events and contexts are here; kernels are executed by another process, which
 * ../library.py starts (worker.h).  It is C, and needs no Python after that, as threads of IREE and
 * of hosts call it that know nothing of Python, or that a thread with Python's lock waits for.
 *
 * Work on a stream is done when it is enqueued.  Device memory is shared with the other process, in
 * one range of addresses of which none is given out twice in a row: accesses of copies and fills to
 * what is not allocated, or is another GPU's, are errors.  New memory is full of 0xFF (NaN).
 *
 * A forked child has no emulated GPU, and none of the memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define API __attribute__((visibility("default")))

enum { DEVICES = 16, ARCH = 64, MESSAGE = 2048, DEPTH = 64 };
#define PAGE ((size_t)4096)

enum error {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  NOT_REGISTERED = 713,
  LAUNCH_FAILURE = 719,
  NOT_SUPPORTED = 801,
  UNKNOWN = 999,
};

static const struct { int code; const char *name, *text; } ERRORS[] = {
  {SUCCESS, "hipSuccess", "no error"},
  {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
  {OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
  {NO_DEVICE, "hipErrorNoDevice", "no emulated device"},
  {INVALID_DEVICE, "hipErrorInvalidDevice", "no device of this number"},
  {INVALID_IMAGE, "hipErrorInvalidImage", "no code object that can be read"},
  {INVALID_CONTEXT, "hipErrorInvalidContext", "invalid device context"},
  {NO_BINARY, "hipErrorNoBinaryForGpu", "code for another GPU"},
  {INVALID_HANDLE, "hipErrorInvalidHandle", "no live stream, event or function"},
  {NOT_FOUND, "hipErrorNotFound", "not found"},
  {NOT_READY, "hipErrorNotReady", "not ready"},
  {ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "memory that is not the device's"},
  {NOT_REGISTERED, "hipErrorHostMemoryNotRegistered", "host memory that was not registered"},
  {LAUNCH_FAILURE, "hipErrorLaunchFailure", "a kernel failed"},
  {NOT_SUPPORTED, "hipErrorNotSupported", "not emulated"},
  {UNKNOWN, "hipErrorUnknown", "unknown error"},
};

/* ---------------------------------------------------------------- the process */

struct allocation {
  uintptr_t begin;
  size_t size;
  int device; /* -1: host memory that every device can access */
  int ours;   /* 1: mapped by us, 0: registered */
};

struct object { int kind, device, done; struct object *next; };
enum { STREAM = 1, EVENT = 2, POOL = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char archs[DEVICES][ARCH];
static int devices;
static size_t limit = (size_t)8 << 30, used[DEVICES];
static struct allocation *allocations; /* by address */
static size_t count, room;
static uintptr_t range, cursor; /* addresses of device memory, which nothing is behind at first */
static size_t span;
static int backing = -1; /* the file of the range, which the worker maps too */
static struct object *objects;

static __thread int stack[DEPTH], depth, current, last;
static __thread char message[MESSAGE];
static __thread int explained; /* the error that the message is about */

static int fail(int status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  explained = status;
  vsnprintf(message, MESSAGE, format, values);
  va_end(values);
  return last = status;
}

/* "gfx942,gfx942": two devices; null or empty: none. */
API int emulated_devices(const char *names, size_t bytes_each) {
  pthread_mutex_lock(&lock);
  devices = 0;
  if (bytes_each) limit = bytes_each;
  while (names && *names && devices < DEVICES) {
    size_t length = strcspn(names, ",");
    if (length >= ARCH) break;
    memcpy(archs[devices], names, length);
    archs[devices++][length] = 0;
    names += length + (names[length] == ',');
  }
  int left = names && *names;
  if (left) devices = 0;
  pthread_mutex_unlock(&lock);
  return left ? INVALID_VALUE : SUCCESS;
}

/* The devices, joined by commas; empty for none.  Its presence tells this library from ROCm's. */
API const char *emulated_archs(void) {
  static __thread char text[DEVICES * (ARCH + 1)];
  text[0] = 0;
  for (int i = 0; i < devices; i++) {
    if (i) strcat(text, ",");
    strcat(text, archs[i]);
  }
  return text;
}

#include "worker.h"

static void in_child(void) {
  pthread_mutex_init(&lock, NULL), pthread_mutex_init(&talking, NULL);
  if (channel >= 0) close(channel);
  if (backing >= 0) close(backing);
  channel = backing = -1, started = 0, devices = 0;
  count = 0, objects = NULL, range = cursor = span = 0;
  memset(used, 0, sizeof used);
}

__attribute__((constructor)) static void begin(void) {
  pthread_atfork(NULL, NULL, in_child);
  /* For hosts that call HIP before there is Python. */
  if (emulated_devices(getenv("HIPDNN_IREE_EMULATE"), 0))
    fprintf(stderr, "HIPDNN_IREE_EMULATE: at most %d names of at most %d bytes\n", DEVICES, ARCH - 1);
}

/* ---------------------------------------------------------------- memory */

/* The last allocation at or before an address, or the number of all. */
static size_t at(uintptr_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (allocations[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low ? low - 1 : count;
}

static int insert(struct allocation it) {
  if (count == room) {
    size_t more = room ? 2 * room : 64;
    struct allocation *grown = realloc(allocations, more * sizeof *grown);
    if (!grown) return OUT_OF_MEMORY;
    allocations = grown, room = more;
  }
  size_t place = at(it.begin);
  place = place == count ? 0 : place + 1;
  memmove(allocations + place + 1, allocations + place, (count - place) * sizeof it);
  allocations[place] = it;
  count++;
  return SUCCESS;
}

/* Whether a copy or fill may touch these bytes; addresses that are not ours are the host's. */
static int check(const void *pointer, size_t size, const char *what) {
  uintptr_t begin = (uintptr_t)pointer;
  if (!size) return SUCCESS;
  if (!begin) return fail(INVALID_VALUE, "%s: a null pointer", what);
  pthread_mutex_lock(&lock);
  size_t place = at(begin);
  int status = SUCCESS;
  if (range && begin >= range && begin < range + span) {
    struct allocation *it = place < count ? allocations + place : NULL;
    if (!it || begin >= it->begin + it->size)
      status = fail(ILLEGAL_ADDRESS, "%s: %p is in no live allocation", what, pointer);
    else if (size > it->begin + it->size - begin)
      status = fail(ILLEGAL_ADDRESS, "%s: %zu bytes at %p, but the allocation ends after %zu", what,
                    size, pointer, (size_t)(it->begin + it->size - begin));
  }
  pthread_mutex_unlock(&lock);
  return status;
}

/* Reserve the range, unless it is; the caller holds the lock. */
static int reserve(void) {
  struct rlimit largest;
  if (range) return 1;
  if (backing < 0 && (backing = memfd_create("emulated-gpus", MFD_CLOEXEC)) < 0) return 0;
  getrlimit(RLIMIT_FSIZE, &largest);
  for (size_t size = (size_t)1 << 40; size >= (size_t)1 << 29; size /= 2) { /* as by ulimit -v or -f */
    if (largest.rlim_cur < size || ftruncate(backing, (off_t)size)) continue;
    void *made = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, backing, 0);
    if (made == MAP_FAILED) continue;
    madvise(made, size, MADV_DONTFORK);
    range = cursor = (uintptr_t)made, span = size;
    return 1;
  }
  return 0;
}

/* The file of device memory and the addresses that it has in this process; -1 if there is no room. */
API int emulated_range(uint64_t *first, uint64_t *size) {
  pthread_mutex_lock(&lock);
  int file = reserve() ? backing : -1;
  *first = range, *size = span;
  pthread_mutex_unlock(&lock);
  return file;
}

/* Addresses for so many bytes and a page that stays closed; the caller holds the lock. */
static uintptr_t addresses(size_t size) {
  if (!reserve()) return 0;
  if (size >= span) return 0;
  for (int rounds = 0; rounds < 2; rounds++) {
    while (cursor + size + PAGE <= range + span) {
      size_t place = at(cursor + size + PAGE - 1);
      struct allocation *it = place < count ? allocations + place : NULL;
      uintptr_t end = it ? (it->begin + it->size + 2 * PAGE - 1) & -PAGE : 0;
      if (!it || it->begin < range || end <= cursor) return cursor;
      cursor = end;
    }
    cursor = range;
  }
  return 0;
}

static int allocate(void **out, size_t size, int device) {
  if (!out) return fail(INVALID_VALUE, "an allocation without a place for its address");
  if (device >= devices) return fail(devices ? INVALID_DEVICE : NO_DEVICE, "no emulated device %d", device);
  *out = NULL;
  if (!size) return SUCCESS;
  size_t whole = (size + PAGE - 1) & -PAGE;
  pthread_mutex_lock(&lock);
  int status = SUCCESS;
  uintptr_t begin = 0;
  if (whole < size || (device >= 0 && (whole > limit || used[device] > limit - whole)))
    status = fail(OUT_OF_MEMORY, "%zu bytes on emulated device %d: it has %zu, of which %zu are used",
                  size, device, limit, device < 0 ? 0 : used[device]);
  else if (!(begin = addresses(whole)) || mprotect((void *)begin, whole, PROT_READ | PROT_WRITE))
    status = fail(OUT_OF_MEMORY, "this machine has no %zu bytes for an emulated device", size);
  else if (!(status = insert((struct allocation){begin, size, device, 1}))) {
    if (device >= 0) {
      memset((void *)begin, 0xFF, whole); /* NaN in every format */
      used[device] += whole;
    }
    cursor = begin + whole + PAGE;
    *out = (void *)begin;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int release(void *pointer, int ours) {
  if (!pointer) return SUCCESS;
  pthread_mutex_lock(&lock);
  size_t place = at((uintptr_t)pointer);
  int status = SUCCESS;
  if (place == count || allocations[place].begin != (uintptr_t)pointer || allocations[place].ours != ours)
    status = fail(ours ? INVALID_VALUE : NOT_REGISTERED, "%p is the begin of no live allocation", pointer);
  else {
    struct allocation it = allocations[place];
    size_t whole = (it.size + PAGE - 1) & -PAGE;
    memmove(allocations + place, allocations + place + 1, (--count - place) * sizeof it);
    if (ours) { /* nothing is behind the addresses any more */
      mprotect((void *)it.begin, whole, PROT_NONE);
      fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(it.begin - range), (off_t)whole);
    }
    if (ours && it.device >= 0) used[it.device] -= whole;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---------------------------------------------------------------- streams, events */

static int make(void **out, int kind, int device) {
  if (!out) return fail(INVALID_VALUE, "no place for a handle");
  if (device >= devices) return fail(devices ? INVALID_DEVICE : NO_DEVICE, "no emulated device %d", device);
  struct object *it = calloc(1, sizeof *it);
  if (!it) return fail(OUT_OF_MEMORY, "no memory for a handle");
  it->kind = kind, it->device = device;
  pthread_mutex_lock(&lock);
  it->next = objects, objects = it;
  pthread_mutex_unlock(&lock);
  *out = it;
  return SUCCESS;
}

/* The device of a live stream or event; a negative number if it is none. */
static int device_of(void *handle, int kind) {
  if (!handle && kind == STREAM) return current; /* the default stream */
  int found = -1;
  pthread_mutex_lock(&lock);
  for (struct object *it = objects; it; it = it->next)
    if (it == handle && it->kind == kind) found = it->device;
  pthread_mutex_unlock(&lock);
  return found;
}

static int alive(void *handle, int kind) {
  static const char *const NAMES[] = {"", "stream", "event", "memory pool"};
  if (device_of(handle, kind) >= 0) return SUCCESS;
  return fail(INVALID_HANDLE, "%p is no live %s", handle, NAMES[kind]);
}

static int destroy(void *handle, int kind) {
  if (!handle || alive(handle, kind)) return fail(INVALID_HANDLE, "%p is not alive", handle);
  pthread_mutex_lock(&lock);
  for (struct object **it = &objects; *it; it = &(*it)->next)
    if (*it == handle) {
      *it = (*it)->next;
      free(handle);
      break;
    }
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

API int hipStreamCreate(void **out) { return make(out, STREAM, current); }
API int hipStreamCreateWithFlags(void **out, unsigned flags) { return (void)flags, make(out, STREAM, current); }
API int hipStreamCreateWithPriority(void **out, unsigned flags, int priority) {
  return (void)flags, (void)priority, make(out, STREAM, current);
}
API int hipStreamDestroy(void *stream) { return destroy(stream, STREAM); }
API int hipStreamSynchronize(void *stream) { return alive(stream, STREAM); }
API int hipStreamQuery(void *stream) { return alive(stream, STREAM); }
API int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)flags;
  int status = alive(stream, STREAM);
  return status ? status : alive(event, EVENT);
}
API int hipStreamGetDevice(void *stream, int *device) {
  if (!device) return fail(INVALID_VALUE, "no place for the device");
  int status = alive(stream, STREAM);
  if (!status) *device = device_of(stream, STREAM);
  return status;
}
API int hipStreamGetFlags(void *stream, unsigned *flags) {
  if (flags) *flags = 0;
  return alive(stream, STREAM);
}
API int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  int status = alive(stream, STREAM);
  if (!status) function(data);
  return status;
}

API int hipEventCreate(void **out) { return make(out, EVENT, current); }
API int hipEventCreateWithFlags(void **out, unsigned flags) { return (void)flags, make(out, EVENT, current); }
API int hipEventDestroy(void *event) { return destroy(event, EVENT); }
API int hipEventQuery(void *event) { return alive(event, EVENT); }
API int hipEventSynchronize(void *event) { return alive(event, EVENT); }
API int hipEventRecord(void *event, void *stream) {
  int status = alive(event, EVENT);
  if (status) return status;
  if ((status = alive(stream, STREAM))) return status;
  if (device_of(stream, STREAM) != device_of(event, EVENT))
    return fail(INVALID_HANDLE, "an event of one device is recorded on a stream of another one");
  return SUCCESS;
}
API int hipEventElapsedTime(float *milliseconds, void *first, void *second) {
  int status = alive(first, EVENT);
  if (!status) status = alive(second, EVENT);
  if (!status && milliseconds) *milliseconds = 0; /* emulation has no times */
  return status;
}

/* ---------------------------------------------------------------- devices, contexts */

static int known(int device) {
  if (device >= 0 && device < devices) return SUCCESS;
  return fail(devices ? INVALID_DEVICE : NO_DEVICE, "no emulated device %d", device);
}

API int hipInit(unsigned flags) { return (void)flags, devices ? SUCCESS : fail(NO_DEVICE, "nothing is emulated"); }
API int hipDriverGetVersion(int *version) { return *version = 70000000, SUCCESS; }
API int hipRuntimeGetVersion(int *version) { return *version = 70000000, SUCCESS; }
API int hipGetDeviceCount(int *out) {
  *out = devices;
  return devices ? SUCCESS : fail(NO_DEVICE, "nothing is emulated");
}
API int hipGetDevice(int *device) { return *device = current, SUCCESS; }
API int hipSetDevice(int device) {
  int status = known(device);
  if (!status) current = device;
  return status;
}
API int hipDeviceSynchronize(void) { return SUCCESS; }
API int hipDeviceReset(void) { return SUCCESS; }
API int hipDeviceGet(int *out, int ordinal) {
  int status = known(ordinal);
  if (!status) *out = ordinal;
  return status;
}
API int hipDeviceGetName(char *out, int size, int device) {
  int status = known(device);
  if (!status) snprintf(out, (size_t)size, "emulated %s", archs[device]);
  return status;
}
API int hipDeviceGetUuid(char *out, int device) {
  int status = known(device);
  if (!status) {
    memcpy(out, "emulated-device-", 16);
    out[15] = (char)('a' + device);
  }
  return status;
}
API int hipDeviceGetPCIBusId(char *out, int size, int device) {
  int status = known(device);
  if (!status) snprintf(out, (size_t)size, "0000:%02x:00.0", device);
  return status;
}
API int hipDeviceTotalMem(size_t *out, int device) {
  int status = known(device);
  if (!status) *out = limit;
  return status;
}
API int hipMemGetInfo(size_t *free_bytes, size_t *total) {
  int status = known(current);
  if (!status) *free_bytes = limit - used[current], *total = limit;
  return status;
}
static size_t shared_bytes(int device) { return strncmp(archs[device], "gfx950", 6) ? 65536 : 163840; }
API int hipDeviceGetAttribute(int *out, int attribute, int device) {
  int status = known(device);
  if (status) return status;
  switch (attribute) { /* hipDeviceAttribute_t */
    case 26: case 27: case 28: *out = 1024; break;              /* block sizes */
    case 29: case 30: case 31: *out = 0x7fffffff; break;        /* grid sizes */
    case 74: *out = (int)shared_bytes(device); break; /* LDS of a block */
    default: *out = 0;
  }
  return SUCCESS;
}
/* hipDeviceProp_tR0600: the fields that programs decide by. */
API int hipGetDevicePropertiesR0600(char *out, int device) {
  int status = known(device);
  if (status) return status;
  memset(out, 0, 1472);
  snprintf(out, 256, "emulated %s", archs[device]);
  memcpy(out + 256, "emulated-device-", 16);
  memcpy(out + 288, &(uint64_t){limit}, 8);               /* totalGlobalMem */
  memcpy(out + 296, &(uint64_t){shared_bytes(device)}, 8); /* sharedMemPerBlock */
  memcpy(out + 308, &(int){64}, 4);                       /* warpSize */
  memcpy(out + 320, &(int){1024}, 4);                     /* maxThreadsPerBlock */
  memcpy(out + 360, &(int[2]){9, 0}, 8);                  /* major, minor */
  snprintf(out + 1160, 256, "%s", archs[device]);         /* gcnArchName */
  return SUCCESS;
}
API int hipDeviceCanAccessPeer(int *out, int device, int peer) {
  return *out = 0, known(device) ? known(device) : known(peer);
}
API int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return (void)peer, (void)flags, fail(NOT_SUPPORTED, "access to other devices is not emulated");
}

/* A context is the address of its device's name. */
static int of_context(void *context) {
  for (int i = 0; i < DEVICES; i++)
    if (context == archs[i]) return i;
  return -1;
}
API int hipDevicePrimaryCtxRetain(void **out, int device) {
  int status = known(device);
  if (!status) *out = archs[device];
  return status;
}
API int hipDevicePrimaryCtxRelease(int device) { return (void)device, SUCCESS; }
API int hipCtxGetCurrent(void **out) { return *out = archs[current], SUCCESS; }
API int hipCtxSetCurrent(void *context) {
  int device = context ? of_context(context) : 0;
  if (device < 0) return fail(INVALID_CONTEXT, "%p is no context", context);
  return current = device, SUCCESS;
}
API int hipCtxPushCurrent(void *context) {
  int device = of_context(context);
  if (device < 0 || depth == DEPTH) return fail(INVALID_CONTEXT, "%p is no context", context);
  stack[depth++] = current;
  return current = device, SUCCESS;
}
API int hipCtxPopCurrent(void **out) {
  if (out) *out = archs[current];
  if (depth) current = stack[--depth];
  return SUCCESS;
}

API int hipGetLastError(void) {
  int status = last;
  return last = SUCCESS, status;
}
API int hipPeekAtLastError(void) { return last; }
API const char *hipGetErrorName(int status) {
  for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].code == status) return ERRORS[i].name;
  return "hipErrorUnknown";
}
API const char *hipGetErrorString(int status) {
  if (status && status == explained) return message;
  for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].code == status) return ERRORS[i].text;
  return "unknown error";
}

/* ---------------------------------------------------------------- memory, as HIP has it */

API int hipMalloc(void **out, size_t size) { return allocate(out, size, current); }
API int hipExtMallocWithFlags(void **out, size_t size, unsigned flags) {
  return (void)flags, allocate(out, size, current);
}
API int hipMallocAsync(void **out, size_t size, void *stream) {
  int status = alive(stream, STREAM);
  return status ? status : allocate(out, size, device_of(stream, STREAM));
}
API int hipMallocFromPoolAsync(void **out, size_t size, void *pool, void *stream) {
  int status = alive(pool, POOL);
  return status ? status : hipMallocAsync(out, size, stream);
}
API int hipMallocManaged(void **out, size_t size, unsigned flags) { return (void)flags, allocate(out, size, -1); }
API int hipHostMalloc(void **out, size_t size, unsigned flags) { return (void)flags, allocate(out, size, -1); }
API int hipFree(void *pointer) { return release(pointer, 1); }
API int hipFreeAsync(void *pointer, void *stream) {
  int status = alive(stream, STREAM);
  return status ? status : release(pointer, 1);
}
API int hipHostFree(void *pointer) { return release(pointer, 1); }
API int hipHostRegister(void *pointer, size_t size, unsigned flags) {
  (void)flags;
  if (!pointer || !size) return fail(INVALID_VALUE, "nothing to register");
  pthread_mutex_lock(&lock);
  int status = insert((struct allocation){(uintptr_t)pointer, size, -1, 0});
  pthread_mutex_unlock(&lock);
  return status;
}
API int hipHostUnregister(void *pointer) { return release(pointer, 0); }
API int hipHostGetDevicePointer(void **out, void *pointer, unsigned flags) {
  return (void)flags, *out = pointer, SUCCESS;
}
API int hipMemPrefetchAsync(const void *pointer, size_t size, int device, void *stream) {
  (void)device;
  int status = alive(stream, STREAM);
  return status ? status : check(pointer, size, "hipMemPrefetchAsync");
}

API int hipDeviceGetDefaultMemPool(void **out, int device) { return make(out, POOL, device); }
API int hipMemPoolCreate(void **out, const void *properties) { return (void)properties, make(out, POOL, current); }
API int hipMemPoolDestroy(void *pool) { return destroy(pool, POOL); }
API int hipMemPoolSetAttribute(void *pool, int attribute, void *value) {
  return (void)attribute, (void)value, alive(pool, POOL);
}
API int hipMemPoolGetAttribute(void *pool, int attribute, void *value) {
  (void)attribute;
  memset(value, 0, 8);
  return alive(pool, POOL);
}
API int hipMemPoolTrimTo(void *pool, size_t keep) { return (void)keep, alive(pool, POOL); }

static int copy(void *to, const void *from, size_t size, void *stream) {
  int status = alive(stream, STREAM);
  if (!status) status = check(to, size, "a copy's target");
  if (!status) status = check(from, size, "a copy's source");
  if (!status) memmove(to, from, size);
  return status;
}
API int hipMemcpy(void *to, const void *from, size_t size, int kind) { return (void)kind, copy(to, from, size, NULL); }
API int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
  return (void)kind, copy(to, from, size, stream);
}
API int hipMemcpyWithStream(void *to, const void *from, size_t size, int kind, void *stream) {
  return (void)kind, copy(to, from, size, stream);
}
API int hipMemcpyHtoD(void *to, const void *from, size_t size) { return copy(to, from, size, NULL); }
API int hipMemcpyDtoH(void *to, const void *from, size_t size) { return copy(to, from, size, NULL); }
API int hipMemcpyDtoD(void *to, const void *from, size_t size) { return copy(to, from, size, NULL); }
API int hipMemcpyHtoDAsync(void *to, const void *from, size_t size, void *stream) { return copy(to, from, size, stream); }
API int hipMemcpyDtoHAsync(void *to, const void *from, size_t size, void *stream) { return copy(to, from, size, stream); }
API int hipMemcpyDtoDAsync(void *to, const void *from, size_t size, void *stream) { return copy(to, from, size, stream); }
API int hipMemcpyPeer(void *to, int device, const void *from, int source, size_t size) {
  return known(device) ? known(device) : known(source) ? known(source) : copy(to, from, size, NULL);
}
API int hipMemcpyPeerAsync(void *to, int device, const void *from, int source, size_t size, void *stream) {
  return known(device) ? known(device) : known(source) ? known(source) : copy(to, from, size, stream);
}

static int fill(void *to, uint32_t value, size_t width, size_t number, void *stream) {
  int status = alive(stream, STREAM);
  if (!status && number > SIZE_MAX / width) status = fail(INVALID_VALUE, "a fill of %zu elements", number);
  if (!status) status = check(to, width * number, "a fill");
  if (status) return status;
  if ((uintptr_t)to % width) return fail(INVALID_VALUE, "a fill of %zu bytes at %p", width, to);
  if (width == 1) memset(to, (int)(value & 0xFF), number);
  else
    for (size_t i = 0; i < number; i++) memcpy((char *)to + width * i, &value, width); /* little endian */
  return SUCCESS;
}
API int hipMemset(void *to, int value, size_t size) { return fill(to, (uint32_t)value, 1, size, NULL); }
API int hipMemsetAsync(void *to, int value, size_t size, void *stream) {
  return fill(to, (uint32_t)value, 1, size, stream);
}
API int hipMemsetD8(void *to, unsigned char value, size_t n) { return fill(to, value, 1, n, NULL); }
API int hipMemsetD8Async(void *to, unsigned char value, size_t n, void *stream) { return fill(to, value, 1, n, stream); }
API int hipMemsetD16(void *to, unsigned short value, size_t n) { return fill(to, value, 2, n, NULL); }
API int hipMemsetD16Async(void *to, unsigned short value, size_t n, void *stream) { return fill(to, value, 2, n, stream); }
API int hipMemsetD32(void *to, int value, size_t n) { return fill(to, (uint32_t)value, 4, n, NULL); }
API int hipMemsetD32Async(void *to, int value, size_t n, void *stream) { return fill(to, (uint32_t)value, 4, n, stream); }

/* ---------------------------------------------------------------- code */

static atomic_ullong launches;

static int ready(void) {
  if (started) return known(current);
  return fail(NOT_READY, "nothing executes kernels for this process: Python has not started the emulator");
}
API int hipModuleLoadDataEx(void **out, const void *image, unsigned number, void *options, void **values) {
  (void)number, (void)options, (void)values;
  struct answer answer;
  char *found;
  size_t size = 0;
  int status = ready();
  if (status) return status;
  if (!image || !out) return fail(INVALID_VALUE, "no image, or no place for the module");
  if ((status = elf_bytes(image, &size))) return status;
  struct part parts[] = {{archs[current], ARCH}, {image, size}};
  if ((status = ask((struct request){.kind = LOAD, .device = (uint32_t)current}, parts, 2, &answer, &found))) return status;
  free(found);
  *out = (void *)(uintptr_t)answer.handle;
  return SUCCESS;
}
API int hipModuleLoadData(void **out, const void *image) { return hipModuleLoadDataEx(out, image, 0, NULL, NULL); }
API int hipModuleUnload(void *module) {
  struct answer answer;
  char *found;
  if (started && !ask((struct request){.kind = UNLOAD, .handle = (uintptr_t)module}, NULL, 0, &answer, &found)) free(found);
  return SUCCESS;
}
API int hipModuleGetFunction(void **out, void *module, const char *name) {
  struct answer answer;
  char *found;
  int status = ready();
  if (status) return status;
  if (!out || !name) return fail(INVALID_VALUE, "no name, or no place for the function");
  struct part part = {name, strlen(name)};
  if ((status = ask((struct request){.kind = FIND, .handle = (uintptr_t)module}, &part, 1, &answer, &found))) return status;
  /* Lives as long as the process, as few are made. */
  struct function *made = calloc(1, sizeof *made + answer.bytes);
  char *copy = strdup(name);
  if (!made || !copy) return free(found), free(made), free(copy), fail(OUT_OF_MEMORY, "no memory for a function");
  made->handle = answer.handle, made->shared_bytes = answer.value, made->name = copy;
  memcpy(&made->bytes, found, 4);
  made->number = (uint32_t)((answer.bytes - 4) / sizeof *made->arguments);
  memcpy(made->arguments, found + 4, made->number * sizeof *made->arguments);
  free(found);
  for (uint32_t i = 0; !status && i < made->number; i++)
    if ((uint64_t)made->arguments[i].offset + made->arguments[i].size > made->bytes)
      status = fail(INVALID_IMAGE, "%s: argument %u ends after its %u bytes of arguments", name, i, made->bytes);
  if (status) return free(made), free(copy), status;
  *out = made;
  return SUCCESS;
}
API int hipModuleGetGlobal(void **out, size_t *size, void *module, const char *name) {
  (void)out, (void)size, (void)module;
  return fail(NOT_SUPPORTED, "global variables of modules are not emulated (%s)", name);
}
API int hipFuncGetAttribute(int *out, int attribute, void *function) {
  if (!function || !out) return fail(INVALID_VALUE, "no function");
  *out = attribute == 0 ? 1024 : attribute == 1 ? (int)((struct function *)function)->shared_bytes : 0;
  return SUCCESS;
}
API int hipFuncSetAttribute(void *function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, SUCCESS;
}
/* The memory that kernels of a device may access, and what is in that of the host, of which the worker has a copy. */
struct memory {
  struct block { uint64_t begin, size, registered; } *blocks;
  size_t number, bytes;
  char *contents;
};

/* Copy from or to memory of the host, which may have unmapped it without a word; whether all is there. */
static int host_copy(void *mine, uint64_t theirs, size_t size, int out) {
  struct iovec here = {mine, size}, there = {(void *)theirs, size};
  ssize_t done = out ? process_vm_writev(getpid(), &here, 1, &there, 1, 0) : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  if (done < 0 && (errno == EPERM || errno == ENOSYS)) /* a sandbox */
    memcpy(out ? (void *)theirs : mine, out ? mine : (void *)theirs, size), done = (ssize_t)size;
  return done == (ssize_t)size;
}

static int gather(int device, struct memory *out) {
  size_t at = 0;
  memset(out, 0, sizeof *out);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count; i++)
    if (!allocations[i].ours) out->bytes += allocations[i].size;
  out->blocks = malloc((count + 1) * sizeof *out->blocks);
  out->contents = malloc(out->bytes + 1);
  for (size_t i = 0; out->blocks && out->contents && i < count; i++) {
    struct allocation *it = allocations + i;
    if (it->device >= 0 && it->device != device) continue;
    if (!it->ours) {
      if (!host_copy(out->contents + at, it->begin, it->size, 0)) continue;
      at += it->size;
    }
    out->blocks[out->number++] = (struct block){it->begin, it->size, !it->ours};
  }
  out->bytes = at;
  pthread_mutex_unlock(&lock);
  return out->blocks && out->contents ? SUCCESS : fail(OUT_OF_MEMORY, "no memory for a launch");
}

/* Take over what a kernel has written into registered memory: address, size and bytes of each part. */
static int scatter(char *found, size_t size) {
  int status = SUCCESS;
  for (char *end = found + size; !status && end - found >= 16;) {
    uint64_t part[2];
    memcpy(part, found, 16);
    found += 16;
    pthread_mutex_lock(&lock);
    size_t place = at(part[0]);
    int there = place < count && !allocations[place].ours && part[0] + part[1] <= allocations[place].begin + allocations[place].size;
    if (!there || !host_copy(found, part[0], part[1], 1))
      status = fail(ILLEGAL_ADDRESS, "a kernel has written to registered memory at %#lx, which cannot be written any more", (unsigned long)part[0]);
    pthread_mutex_unlock(&lock);
    found += part[1];
  }
  return status;
}

API int hipModuleLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **arguments, void **extra) {
  struct function *function = handle;
  struct answer answer;
  struct memory memory = {0};
  char *found = NULL;
  int status = ready();
  if (!status) status = alive(stream, STREAM);
  if (status) return status;
  if (!function) return fail(INVALID_HANDLE, "no function");
  int device = device_of(stream, STREAM);
  char *packed = calloc(1, function->bytes + 1);
  status = packed ? pack(function, arguments, extra, packed) : fail(OUT_OF_MEMORY, "no memory for a launch");
  if (!status) status = gather(device, &memory);
  if (!status) {
    struct request request = {LAUNCH, (uint32_t)device, function->handle, {gx, gy, gz, bx, by, bz, shared},
                              function->bytes, memory.number, 0};
    struct part parts[] = {{packed, function->bytes}, {memory.blocks, memory.number * sizeof *memory.blocks},
                           {memory.contents, memory.bytes}};
    status = ask(request, parts, 3, &answer, &found);
  }
  if (!status && !(status = scatter(found, answer.bytes))) launches++;
  free(packed), free(memory.blocks), free(memory.contents), free(found);
  return status;
}

/* Kernels that were executed to their end, by all devices. */
API uint64_t emulated_launches(void) { return launches; }

/* The addresses of all instructions that were executed, by kernel, as JSON; null if that cannot be asked. */
API char *emulated_executed(void) {
  struct answer answer;
  char *found = NULL;
  return started && !ask((struct request){.kind = EXECUTED}, NULL, 0, &answer, &found) ? found : NULL;
}
API void emulated_free(void *text) { free(text); }

/* IREE's driver looks these up and can do without them. */
#define MISSING(name) \
  API int name(void) { return fail(NOT_SUPPORTED, #name " is not emulated"); }
MISSING(hipLaunchKernel)
MISSING(hipGraphCreate)
MISSING(hipGraphDestroy)
MISSING(hipGraphAddEmptyNode)
MISSING(hipGraphAddEventRecordNode)
MISSING(hipGraphAddKernelNode)
MISSING(hipGraphAddMemsetNode)
MISSING(hipDrvGraphAddMemcpyNode)
MISSING(hipGraphExecDestroy)
MISSING(hipGraphInstantiate)
MISSING(hipGraphLaunch)
