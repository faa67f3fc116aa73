// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Scenarios of many graphs, of several plugins, and of orders that hipDNN allows and seldom has. */
#include "scenarios.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char text[4096];

static int same(const job_t* job, uint8_t** results, int keep) {
  for (uint32_t b = 0; b < job->count; ++b) {
    if (!strcmp(job->out[b], "-")) continue;
    if (keep) results[b] = memcpy(malloc(job->bytes[b] + 1), job->buffers[b].ptr, job->bytes[b]);
    else if (memcmp(results[b], job->buffers[b].ptr, job->bytes[b])) return 0;
    memset(job->buffers[b].ptr, 0xA5, job->bytes[b]);
  }
  return 1;
}

/* From a plan as bytes to a plan, as each era goes about it. */
static int again(const plan_t* p, void** loaded) {
  data_t bytes = {NULL, 0};
  int status = era == NEW ? P.SerializeWithId(p->handle, engine, p->context, &bytes)
                          : P.Serialize(p->handle, p->context, &bytes);
  if (status) return status;
  zone_t copy = zone_of(bytes.size, 0, 1, 0);
  memcpy(copy.data, bytes.ptr, bytes.size);
  data_t given = {copy.data, bytes.size};
  status = P.DestroySerialized(p->handle, &bytes);
  if (!status && (bytes.ptr || bytes.size)) status = -1;
  if (!status && getenv("HOST_FOUR_ARGUMENTS")) { /* as one text of 2026 has it */
    typedef int (*four)(void*, const data_t*, const data_t*, void**);
    status = ((four)(void (*)(void))P.CreateFromSerialized)(p->handle, &config, &given, loaded);
    if (!status && given.ptr != copy.data) status = -2;
  } else if (!status) {
    status = P.CreateFromSerialized(p->handle, &given, loaded);
  }
  zone_free(&copy);
  return status;
}

/* Each way to execute the graph of a folder gives the same bits and writes nothing else. */
static const char* serve_one(void* handle, const char* folder) {
  static job_t job;
  uint8_t* results[MOST] = {NULL};
  char file[4200];
  plan_t made;
  shapes_t s;
#define FILE_OF(name) (snprintf(file, sizeof file, "%s/%s", folder, name), file)
  graph = slurp(FILE_OF("graph")), config = slurp(FILE_OF("config"));
  read_job(FILE_OF("job"), &job);
  read_shapes(FILE_OF("shapes"), &s);
  const char* bad = make_plan(handle, &made);
  void* loaded = NULL;
  for (int way = 0; !bad && way < 3; ++way) {
    if (way == 2 && era == N25) break;
    int status = way == 2 ? again(&made, &loaded) : SUCCESS;
    if (status) {
      snprintf(text, sizeof text, "status %d of a plan as bytes: %s", status, last_error()), bad = text;
      break;
    }
    void *context = way == 2 ? loaded : made.context, *space = way == 1 ? NULL : made.space.data;
    status = s.count ? P.ExecuteOpGraphWithOverrides(handle, context, space, job.buffers, job.count, s.count, s.uids,
                                                     s.ranks, s.dims, s.strides)
                     : P.ExecuteOpGraph(handle, context, space, job.buffers, job.count);
    const char* broken = job_broken(&job);
    if (!broken && made.space.first && zone_broken(&made.space)) broken = "beside the workspace";
    if (broken) snprintf(text, sizeof text, "written in way %d: %s", way, broken), bad = text;
    else if (status) snprintf(text, sizeof text, "status %d of way %d: %s", status, way, last_error()), bad = text;
    if (!bad && !way) write_results(&job);
    if (!bad && !same(&job, results, !way)) snprintf(text, sizeof text, "other bits in way %d", way), bad = text;
  }
  if (loaded && P.DestroyExecutionContext(handle, loaded) && !bad) bad = "the loaded plan is not destroyed";
  if (made.context && made.details.ptr) unplan(&made);
  for (int b = 0; b < MOST; ++b) free(results[b]);
  free_job(&job);
  forget(&graph), forget(&config);
  return bad;
}

/* serve ANSWERS: folders from stdin, each with graph, config, job and perhaps shapes; a line for each of them:
 * "ok", "declined", or what is wrong.  First without, then from the pool, then as bytes: one workspace each. */
static int serve(char** args) {
  char folder[4096];
  void* handle = NULL;
  FILE* answers = fopen(args[0], "w");
  load(4);
  EXPECT(answers && !P.Create(&handle));
  while (fgets(folder, sizeof folder, stdin)) {
    folder[strcspn(folder, "\n")] = 0;
    const char* answer = serve_one(handle, folder);
    for (answer = answer ? answer : "ok"; *answer; ++answer) fputc(*answer == '\n' ? ' ' : *answer, answers);
    fputc('\n', answers);
    fflush(answers);
  }
  EXPECT(!P.Destroy(handle));
  return 0;
}

static void knob(const char* name, int type) { printf("knob %s %d\n", name, type); }

/* details GRAPH: what a host lists of each engine, best first */
static int details(char** args) {
  void* of[MOST];
  int64_t ids[MOST];
  uint32_t count = 0;
  load(4);
  graph = slurp(args[0]);
  EXPECT(!create_handles(of));
  for (int i = 0; i < plugins; ++i)
    printf("plugin %s %s %s %u engines%s\n", plugin[i].name, plugin[i].version, plugin[i].api, plugin[i].engines,
           of[i] ? "" : ", no handle");
  EXPECT(!applicable(of, &graph, ids, MOST, &count));
  for (uint32_t k = 0; k < count; ++k) {
    data_t found = {NULL, 0};
    int by = plugin_of(ids[k]);
    printf("engine %" PRId64 "\n", ids[k]);
    EXPECT(!plugin[by].GetEngineDetails(of[by], ids[k], &graph, &found));
    const char* bad = read_details(&found, ids[k], knob);
    if (bad) printf("bad %s\n", bad);
    EXPECT(!plugin[by].DestroyEngineDetails(of[by], &found) && !found.ptr && !found.size);
  }
  for (int i = 0; i < plugins; ++i) EXPECT(!of[i] || !plugin[i].Destroy(of[i]));
  return 0;
}

/* several GRAPH CONFIG JOB: the plugins of one host, and those that have the configuration's engine execute, also
 * where another plugin had it first (a second hipDNN in the process would use it) */
static int several(char** args) {
  void* of[MOST];
  plugin_t all[MOST];
  job_t job;
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  read_job(args[2], &job);
  EXPECT(!create_handles(of));
  memcpy(all, plugin, sizeof all);
  uint8_t* results[MOST] = {NULL};
  int ours = 0;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < plugins; ++i) {
      int64_t own = 0;
      uint32_t n = 0;
      engine = engine_of(&config);
      if (all[i].GetAllEngineIds(&own, 1, &n) || own != engine) continue;
      P = all[i]; /* what follows is asked of this one */
      plan_t made = plan(of[i]);
      EXPECT(!execute(&made, &job));
      intact(&made, &job);
      if (!ours) write_results(&job);
      EXPECT(same(&job, results, !ours++));
      void* stranger = of[(i + 1) % plugins];
      if (plugins > 1) EXPECT(P.ExecuteOpGraph(stranger, made.context, NULL, job.buffers, job.count) == BAD_PARAM);
      unplan(&made);
    }
  for (int i = plugins; i-- > 0;) EXPECT(!all[i].Destroy(of[i]));
  printf("executed %d\nplugins %d\nengines", ours, plugins);
  for (int i = 0; i < plugins; ++i) printf(" %u", all[i].engines);
  printf("\n");
  return 0;
}

/* orders GRAPH CONFIG JOB: legal, and not what hipDNN does on most days */
typedef struct { plan_t* plan; job_t* job; } elsewhere_t;
static void* execute_elsewhere(void* given) {
  elsewhere_t* e = given;
  EXPECT(!execute(e->plan, e->job));
  return NULL;
}

static int orders(char** args) {
  void *one = NULL, *two = NULL, *context = NULL;
  uint8_t* results[MOST] = {NULL};
  pthread_t thread;
  job_t job;
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  read_job(args[2], &job);
  EXPECT(!P.Create(&one));
  /* A plan that was chosen without asking: no applicability, no details, no estimate. */
  EXPECT(!P.CreateExecutionContext(one, &config, &graph, &context));
  EXPECT(!P.ExecuteOpGraph(one, context, NULL, job.buffers, job.count));
  write_results(&job);
  same(&job, results, 1);
  /* A handle that came later executes it, on a stream that is set before each call. */
  EXPECT(!P.Create(&two) && two != one);
  for (int k = 0; k < 3; ++k) {
    EXPECT(!P.SetStream(k % 2 ? one : two, NULL) && !P.ExecuteOpGraph(two, context, NULL, job.buffers, job.count));
    EXPECT(same(&job, results, 0));
  }
  /* Plans of one graph side by side, destroyed in the order in which they were made. */
  plan_t plans[3] = {plan(one), plan(two), plan(one)};
  for (int k = 0; k < 6; ++k) {
    EXPECT(!execute(&plans[k % 3], &job));
    EXPECT(same(&job, results, 0));
  }
  /* Made in one thread, executed in another, destroyed in this one. */
  elsewhere_t here = {&plans[1], &job};
  EXPECT(!pthread_create(&thread, NULL, execute_elsewhere, &here) && !pthread_join(thread, NULL));
  EXPECT(same(&job, results, 0));
  EXPECT(!P.DestroyExecutionContext(one, context));
  /* Descriptions that go before the plan, and with a call of another handle between. */
  EXPECT(!P.DestroyEngineDetails(one, &plans[0].details));
  EXPECT(!execute(&plans[0], &job) && same(&job, results, 0));
  EXPECT(!P.DestroyExecutionContext(one, plans[0].context));
  unplan(&plans[1]);
  EXPECT(!P.Destroy(two));
  EXPECT(!execute(&plans[2], &job) && same(&job, results, 0));
  /* The plan as bytes outlives the plan; two are loaded from one. */
  if (era > N25) {
    void* loaded[2] = {NULL, NULL};
    EXPECT(!again(&plans[2], &loaded[0]) && !again(&plans[2], &loaded[1]) && loaded[0] != loaded[1]);
    unplan(&plans[2]);
    for (int k = 0; k < 2; ++k) {
      EXPECT(!P.ExecuteOpGraph(one, loaded[k], NULL, job.buffers, job.count) && same(&job, results, 0));
      EXPECT(!P.DestroyExecutionContext(one, loaded[k]));
    }
  } else {
    unplan(&plans[2]);
  }
  /* The host takes its log away and gives it back. */
  EXPECT(!P.SetLoggingCallback(NULL));
  if (P.SetLogLevel) EXPECT(!P.SetLogLevel(4) && !P.SetLogLevel(3));
  EXPECT(!job_broken(&job));
  EXPECT(!P.Destroy(one));
  EXPECT(!P.Create(&one) && !P.Destroy(one)); /* and begins again */
  printf("ordered yes\n");
  return 0;
}

const scenario_t order_scenarios[] = {
    {"serve", serve, 1}, {"details", details, 1}, {"several", several, 3}, {"orders", orders, 3}, {NULL, NULL, 0},
};
