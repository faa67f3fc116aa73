// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Memory with red zones, and the files that say what a graph is executed on; see host.h. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t red(const zone_t* zone, size_t at) { return zone->read ? 0xFF : (uint8_t)(0xA5 + 29 * at); }

static int outside(const zone_t* zone, size_t at) {
  size_t from = (size_t)(zone->data - zone->first);
  return at < from || at >= from + zone->bytes;
}

static void* hip(const char* name) {
  static void* library;
  const char* path = getenv("HOST_HIP");
  if (path && !library && !(library = dlopen(path, RTLD_NOW | RTLD_GLOBAL))) {
    printf("FAILED %s\n", dlerror());
    exit(1);
  }
  return library ? dlsym(library, name) : NULL;
}

static void must(int status, const char* call) {
  if (!status) return;
  printf("FAILED %s: %d\n", call, status);
  exit(1);
}

void* gpu_stream(void) {
  int (*set)(int) = hip("hipSetDevice");
  int (*create)(void**) = hip("hipStreamCreate");
  void* stream = NULL;
  if (set) must(set(1), "hipSetDevice"), must(create(&stream), "hipStreamCreate"), must(set(0), "hipSetDevice");
  return stream;
}

void zone_to_read(zone_t* zone) {
  zone->read = 1;
  for (size_t k = 0; k < zone->length; ++k)
    if (outside(zone, k)) zone->first[k] = red(zone, k);
}

zone_t zone_of(size_t bytes, size_t skew, int at_the_end, int fill) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (bytes + 63) / 64 * 64 + (skew ? 64 : 0);
  zone_t zone = {.length = (rounded + page) / page * page, .bytes = bytes};
  uint8_t* all = mmap(NULL, zone.length + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED || mprotect(all + page, zone.length, PROT_READ | PROT_WRITE)) {
    printf("FAILED no memory for %zu bytes: %s\n", bytes, strerror(errno));
    exit(1);
  }
  zone.first = all + page;
  zone.data = zone.first + (at_the_end ? zone.length - rounded : 0) + skew;
  for (size_t k = 0; k < zone.length; ++k) zone.first[k] = red(&zone, k);
  memset(zone.data, fill, bytes);
  int (*pin)(void*, size_t, unsigned) = hip("hipHostRegister");
  if (pin) must(pin(zone.first, zone.length, 0), "hipHostRegister");
  return zone;
}

int zone_broken(const zone_t* zone) {
  int broken = 0;
  for (size_t k = 0; k < zone->length; ++k) broken += outside(zone, k) && zone->first[k] != red(zone, k);
  return broken;
}

void zone_free(zone_t* zone) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (zone->first) munmap(zone->first - page, zone->length + 2 * page);
  memset(zone, 0, sizeof *zone);
}

data_t slurp(const char* path) {
  FILE* f = fopen(path, "rb");
  if (!f) { printf("FAILED %s: %s\n", path, strerror(errno)); exit(1); }
  fseek(f, 0, SEEK_END);
  size_t size = (size_t)ftell(f);
  rewind(f);
  zone_t zone = zone_of(size, 0, 1, 0);
  if (fread(zone.data, 1, size, f) != size) exit(1);
  fclose(f);
  return (data_t){zone.data, size};
}

void forget(data_t* data) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (data->size + 63) / 64 * 64;
  size_t length = (rounded + page) / page * page;
  munmap((uint8_t*)data->ptr + rounded - length - page, length + 2 * page);
  *data = (data_t){NULL, 0};
}

/* Lines of: uid bytes skew start|end file-to-read|- file-to-write|-, with tabs between, as paths may have
 * blanks.  Buffers begin `skew` bytes past a multiple of 64, at one end of their pages. */
void read_job(const char* path, job_t* job) {
  FILE* f = fopen(path, "r");
  char in[4096], place[8];
  size_t skew;
  memset(job, 0, sizeof *job);
  while (f && job->count < MOST) {
    uint32_t k = job->count;
    if (fscanf(f, "%" SCNd64 " %zu %zu %7s %4095[^\t\n] %4095[^\t\n]", &job->buffers[k].uid, &job->bytes[k], &skew,
               place, in, job->out[k]) != 6) break;
    job->zones[k] = zone_of(job->bytes[k], skew, !strcmp(place, "end"), 0xA5);
    job->buffers[k].ptr = job->zones[k].data;
    ++job->count;
    if (!strcmp(in, "-")) continue;
    FILE* from = fopen(in, "rb");
    if (!from || fread(job->buffers[k].ptr, 1, job->bytes[k], from) != job->bytes[k] || fgetc(from) != EOF) {
      printf("FAILED %s has not the %zu bytes wanted\n", in, job->bytes[k]);
      exit(1);
    }
    fclose(from);
    if (strcmp(job->out[k], "-")) continue;
    zone_to_read(&job->zones[k]);
    job->before[k] = memcpy(malloc(job->bytes[k] + 1), job->buffers[k].ptr, job->bytes[k]);
  }
  if (!f || fgetc(f) != EOF) { printf("FAILED %s is no list of up to %d buffers\n", path, MOST); exit(1); }
  fclose(f);
}

void write_results(const job_t* job) {
  for (uint32_t k = 0; k < job->count; ++k) {
    if (!strcmp(job->out[k], "-")) continue;
    FILE* f = fopen(job->out[k], "wb");
    fwrite(job->buffers[k].ptr, 1, job->bytes[k], f);
    fclose(f);
  }
}

const char* job_broken(const job_t* job) {
  static char text[128];
  for (uint32_t k = 0; k < job->count; ++k) {
    int broken = zone_broken(&job->zones[k]);
    if (broken) snprintf(text, sizeof text, "%d bytes beside uid %" PRId64, broken, job->buffers[k].uid);
    else if (job->before[k] && memcmp(job->before[k], job->buffers[k].ptr, job->bytes[k]))
      snprintf(text, sizeof text, "the operand uid %" PRId64, job->buffers[k].uid);
    else continue;
    return text;
  }
  return NULL;
}

void free_job(job_t* job) {
  for (uint32_t k = 0; k < job->count; ++k) zone_free(&job->zones[k]), free(job->before[k]);
  job->count = 0;
}

/* Lines of: uid rank dims... strides... */
void read_shapes(const char* path, shapes_t* s) {
  FILE* f = fopen(path, "r");
  memset(s, 0, sizeof *s);
  while (f && s->count < MOST && fscanf(f, "%" SCNd64 " %u", &s->uids[s->count], &s->ranks[s->count]) == 2) {
    uint32_t rank = s->ranks[s->count];
    int64_t* rows = s->rows[s->count];
    for (uint32_t k = 0; k < 2 * rank && rank <= 8; ++k)
      if (fscanf(f, "%" SCNd64, &rows[k < rank ? k : 8 + k - rank]) != 1) exit(1);
    s->dims[s->count] = rows, s->strides[s->count] = rows + 8;
    ++s->count;
  }
  if (f) fclose(f);
}
