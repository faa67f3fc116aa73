// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* The scenarios as a program, and as a library for hosts in Python.
 *
 *   host LIBRARY[:LIBRARY...] ERA SCENARIO [ARGUMENTS]
 *
 * ERA is n25, m26 or new (host.h).  One line of "key value" facts for each thing that a test looks
 * at goes to stdout; a broken expectation ends with status 1.
 */
#include "scenarios.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char* library_path;
int64_t engine;
data_t graph, config;
atomic_int leaving, logged;

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

long resident_kib(void) {
  long pages = 0, unused = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  if (f) { if (fscanf(f, "%ld %ld", &unused, &pages) != 2) pages = 0; fclose(f); }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void on_log(int severity, const char* text) {
  atomic_fetch_add(&logged, 1);
  if (getenv("HOST_SHOW_LOG")) { printf("log %d %s\n", severity, text); fflush(stdout); }
}

void* load(int level) {
  char *paths = strdup(library_path), *at = paths;
  plugins = 0;
  for (const char* path; (path = strsep(&at, ":"));) {
    const char* why = plugin_load(path, on_log, level);
    if (why && !plugins && strncmp(why, "unlisted ", 9)) { printf("FAILED %s: %s\n", path, why); exit(1); }
    if (why && plugins) printf("skipped %s\n", why);
    else if (why) printf("%s\n", why); /* hipDNN would leave it; what it answers then is what tests look at */
  }
  free(paths);
  engine = P.engines ? P.ids[0] : 0x018824D4D02D5223;
  return P.so;
}

const char* make_plan(void* handle, plan_t* made) {
  static char text[2300]; /* of the first failure */
  zone_t copies[2] = {zone_of(graph.size, 0, 1, 0), zone_of(config.size, 0, 1, 0)};
  memcpy(copies[0].data, graph.ptr, graph.size);
  memcpy(copies[1].data, config.ptr, config.size);
  data_t g = {copies[0].data, graph.size}, c = {copies[1].data, config.size};
  uint32_t count = 9;
  int64_t id = 0;
  size_t guess = 0;
  const char* bad = NULL;
  *made = (plan_t){.handle = handle};
#define STEP(call) \
  if (!bad) { \
    int status = P.call; \
    if (status) snprintf(text, sizeof text, "status %d of %.28s: %s", status, #call, last_error()), bad = text; \
  }
  STEP(GetApplicableEngineIds(handle, &g, &id, 1, &count))
  if (!bad && (count != 1 || id != engine)) bad = "declined";
  STEP(GetEngineDetails(handle, engine, &g, &made->details))
  if (!bad) bad = read_details(&made->details, engine, NULL);
  STEP(GetWorkspaceSize(handle, &c, &g, &guess))
  STEP(CreateExecutionContext(handle, &c, &g, &made->context))
  if (!bad && !made->context) bad = "no context";
  zone_free(&copies[0]), zone_free(&copies[1]); /* they were the host's: nobody reads them again */
  STEP(GetWorkspaceSizeFromExecutionContext(handle, made->context, &made->size))
  if (bad && made->context) P.DestroyExecutionContext(handle, made->context);
  if (bad && made->details.ptr) P.DestroyEngineDetails(handle, &made->details);
  if (!bad && made->size && !getenv("HOST_NULL_WORKSPACE")) made->space = zone_of(made->size, 16, 1, 0xFF);
  return bad;
}

plan_t plan(void* handle) {
  plan_t made;
  const char* bad = make_plan(handle, &made);
  if (bad) {
    while (atomic_load(&leaving)) usleep(1000);
    printf("FAILED %s\n", bad);
    fflush(stdout);
    _exit(1);
  }
  return made;
}

void unplan(plan_t* p) {
  EXPECT(!P.DestroyExecutionContext(p->handle, p->context));
  EXPECT(!P.DestroyEngineDetails(p->handle, &p->details) && !p->details.ptr && !p->details.size);
  zone_free(&p->space);
}

int execute(const plan_t* p, const job_t* job) {
  return P.ExecuteOpGraph(p->handle, p->context, p->space.data, job->buffers, job->count);
}

void intact(const plan_t* p, const job_t* job) {
  const char* broken = job_broken(job);
  if (!broken && p->space.first && zone_broken(&p->space)) broken = "beside the workspace";
  if (broken) { printf("FAILED written: %s\n", broken); fflush(stdout); _exit(1); }
}

__attribute__((visibility("default"))) int host_main(int count, char** args) {
  static const char* const eras[] = {"n25", "m26", "new"};
  const scenario_t* tables[] = {graph_scenarios, order_scenarios, life_scenarios};
  if (count < 4) return 2;
  library_path = args[1];
  for (era = N25; era <= NEW && strcmp(args[2], eras[era]); ++era) {}
  for (int t = 0; t < 3 && era <= NEW; ++t)
    for (const scenario_t* s = tables[t]; s->name; ++s)
      if (!strcmp(args[3], s->name) && count - 4 == s->arguments) {
        int status = s->body(args + 4);
        fflush(stdout);
        return status;
      }
  fprintf(stderr, "host: no scenario %s of era %s with %d arguments\n", args[3], args[2], count - 4);
  return 2;
}

#ifdef PROGRAM
int main(int count, char** args) { return host_main(count, args); }
#endif
