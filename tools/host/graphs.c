// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Scenarios of graphs: executed, refused, saved and loaded. */
#include "scenarios.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (!found && fgets(line, sizeof line, maps)) found = strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

static int ascending(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Calls with other pointers each time: 1,000 sets, every buffer of a set `skew` bytes past a multiple of 64. */
enum { SETS = 1000 };
static void rotate(const plan_t* p, const job_t* job, int calls, size_t skew, const char* name) {
  buffer_t* sets = malloc(SETS * sizeof job->buffers);
  for (uint32_t b = 0; b < job->count; ++b) {
    char* memory = aligned_alloc(64, (job->bytes[b] + 64 * SETS + 191) / 64 * 64);
    for (size_t at = 0; at < job->bytes[b] + 64 * SETS; ++at) memory[at] = 0;
    for (int k = 0; k < SETS; ++k) sets[k * MOST + b] = (buffer_t){job->buffers[b].uid, memory + 64 * k + skew};
  }
  double* times = malloc(sizeof(double) * (size_t)calls);
  for (int k = -calls / 10; k < calls; ++k) { /* those before 0 are not counted */
    double t = now();
    EXPECT(!P.ExecuteOpGraph(p->handle, p->context, p->space.data, sets + (k + calls) % SETS * MOST, job->count));
    if (k >= 0) times[k] = now() - t;
  }
  qsort(times, (size_t)calls, sizeof *times, ascending);
  printf("%s_us %.3f\n%s_median_us %.3f\n", name, times[0] * 1e6, name, times[calls / 2] * 1e6);
}

/* run GRAPH CONFIG JOB ITERATIONS */
static int run(char** args) {
  double begin = now();
  load(-1);
  void* handle = NULL;
  EXPECT(!P.Create(&handle) && handle);
  double started = now();
  EXPECT(!P.SetStream(handle, gpu_stream()));
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  plan_t made = plan(handle);
  double planned = now();
  EXPECT(!execute(&made, &job));
  double first = now();
  struct timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  printf("cpu_s %.6f\n", (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9);
  printf("compiler_mapped %d\n", mapped("libIREECompiler") || mapped("torch_mlir"));
  write_results(&job);
  int iterations = atoi(args[3]);
  for (int k = 0; k < iterations / 10; ++k) execute(&made, &job);
  long before = resident_kib();
  double loop = now(), best = 1e9;
  for (int k = 0; k < iterations; ++k) {
    double t = now();
    EXPECT(!execute(&made, &job));
    t = now() - t;
    if (t < best) best = t;
  }
  loop = now() - loop;
  printf("start_s %.6f\nplan_s %.6f\nfirst_s %.6f\ntotal_s %.6f\n", started - begin, planned - started, first - planned,
         first - begin);
  if (iterations)
    printf("mean_us %.3f\nbest_us %.3f\ngrowth_kib %ld\n", loop / iterations * 1e6, best * 1e6,
           resident_kib() - before);
  if (iterations) rotate(&made, &job, iterations, 0, "rotating");
  if (iterations) rotate(&made, &job, iterations, 16, "copied");
  intact(&made, &job);
  unplan(&made);
  EXPECT(!P.Destroy(handle));
  return 0;
}

/* threads GRAPH CONFIG JOB ITERATIONS THREADS: a handle, a context and buffers each */
static char** thread_args;
static void* worker(void* unused) {
  (void)unused;
  void* handle = NULL;
  job_t job, reference;
  read_job(thread_args[2], &job);
  read_job(thread_args[2], &reference);
  EXPECT(!P.Create(&handle));
  plan_t made = plan(handle);
  EXPECT(!execute(&made, &reference));
  for (int k = 0; k < atoi(thread_args[3]); ++k) {
    EXPECT(!execute(&made, &job));
    if (k % 64) continue;
    for (uint32_t b = 0; b < job.count; ++b) {
      EXPECT(!memcmp(job.buffers[b].ptr, reference.buffers[b].ptr, job.bytes[b]));
      if (strcmp(job.out[b], "-")) memset(job.buffers[b].ptr, k, job.bytes[b]);
    }
  }
  intact(&made, &job);
  unplan(&made);
  EXPECT(!P.Destroy(handle));
  return NULL;
}

static int threads(char** args) {
  load(-1);
  graph = slurp(args[0]), config = slurp(args[1]);
  thread_args = args;
  int count = atoi(args[4]);
  pthread_t ids[64];
  double begin = now();
  for (int k = 0; k < count; ++k) pthread_create(&ids[k], NULL, worker, NULL);
  for (int k = 0; k < count; ++k) pthread_join(ids[k], NULL);
  printf("seconds %.3f\n", now() - begin);
  return 0;
}

/* in_place GRAPH CONFIG JOB OUTPUT INPUT SHIFT: the output begins so many bytes after the input */
static int in_place(char** args) {
  load(-1);
  void* handle = NULL;
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  EXPECT(!P.Create(&handle));
  plan_t made = plan(handle);
  buffer_t *output = NULL, *input = NULL;
  for (uint32_t b = 0; b < job.count; ++b) {
    if (job.buffers[b].uid == atol(args[3])) output = &job.buffers[b];
    if (job.buffers[b].uid == atol(args[4])) input = &job.buffers[b];
  }
  EXPECT(output && input);
  output->ptr = (char*)input->ptr + atol(args[5]);
  int status = execute(&made, &job);
  printf("status %d\nerror ", status);
  for (const char* at = status ? last_error() : ""; *at; ++at) putchar(*at == '\n' ? ' ' : *at);
  printf("\n");
  if (!status) write_results(&job);
  return 0;
}

/* stack GRAPH CONFIG JOB KIB: everything happens on threads with such a stack, one after another */
static job_t stack_job;
static void* on_small_stack(void* unused) {
  (void)unused;
  void* handle = NULL;
  uint32_t count = 0;
  EXPECT(!P.GetAllEngineIds(NULL, 0, &count) && count == 1);
  EXPECT(!P.Create(&handle) && handle);
  EXPECT(P.CreateExecutionContext(handle, NULL, NULL, NULL) && *last_error());
  plan_t made = plan(handle);
  EXPECT(!execute(&made, &stack_job));
  double begin = now();
  for (int k = 0; k < 1000; ++k) EXPECT(!execute(&made, &stack_job));
  printf("call_us %.3f\n", (now() - begin) * 1e3);
  intact(&made, &stack_job);
  EXPECT(P.ExecuteOpGraph(handle, NULL, NULL, NULL, 0) && strstr(last_error(), "context"));
  EXPECT(!P.SetLogLevel(3));
  unplan(&made);
  EXPECT(!P.Destroy(handle));
  return NULL;
}

static int on_stack(char** args) {
  load(-1);
  graph = slurp(args[0]), config = slurp(args[1]);
  read_job(args[2], &stack_job);
  for (int k = 0; k < 3; ++k) {
    pthread_t thread;
    pthread_attr_t about;
    pthread_attr_init(&about);
    if (pthread_attr_setstacksize(&about, (size_t)atol(args[3]) * 1024)) { printf("FAILED no such stack\n"); exit(1); }
    if (pthread_create(&thread, &about, on_small_stack, NULL)) { printf("FAILED no thread\n"); exit(1); }
    pthread_join(thread, NULL);
  }
  write_results(&stack_job);
  return 0;
}

static void* other_thread_error(void* unused) {
  (void)unused;
  EXPECT(!*last_error()); /* the text of another thread is none of ours */
  EXPECT(P.Destroy(NULL) == 1);
  EXPECT(strstr(last_error(), "handle is null"));
  return NULL;
}

/* errors GRAPH CONFIG JOB: something wrong at every step */
static int errors(char** args) {
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  char stranger[16];
  const char* text;
  uint32_t count = 0;
  int64_t id = 0;
  size_t size = 0;
  data_t out = {stranger, 3}, nothing = {NULL, 0}, empty = {stranger, 0}, noise = {"garbage that is no graph", 24};
  void *handle = NULL, *context = NULL, *ctx2 = stranger;
  P.GetLastErrorString(NULL);
  EXPECT(P.GetName(NULL) == BAD_PARAM && P.GetVersion(NULL) == BAD_PARAM && P.GetType(NULL) == BAD_PARAM);
  EXPECT(P.GetAllEngineIds(NULL, 0, NULL) == BAD_PARAM);
  EXPECT(P.GetAllEngineIds(NULL, 4, &count) == BAD_PARAM);
  if (era == NEW)
    EXPECT(P.GetEngineName(engine + 1, &text) == NOT_APPLICABLE && P.GetEngineName(engine, NULL) == BAD_PARAM);
  if (era > N25) EXPECT(P.SetLogLevel(9) == INVALID_VALUE && P.SetLogLevel(-1) == INVALID_VALUE);
  if (era > N25) EXPECT(P.GetApiVersion(NULL) == BAD_PARAM);
  EXPECT(P.Create(NULL) == BAD_PARAM);
  EXPECT(P.Destroy(NULL) == BAD_PARAM && P.Destroy(stranger) == BAD_PARAM);
  EXPECT(!P.Create(&handle));
  EXPECT(P.SetStream(stranger, NULL) == BAD_PARAM && P.SetStream(NULL, NULL) == BAD_PARAM);
  EXPECT(P.GetApplicableEngineIds(stranger, &graph, &id, 1, &count) == BAD_PARAM);
  EXPECT(P.GetApplicableEngineIds(handle, NULL, &id, 1, &count) == BAD_PARAM && count == 0);
  EXPECT(P.GetApplicableEngineIds(handle, &nothing, &id, 1, &count) == BAD_PARAM);
  EXPECT(P.GetApplicableEngineIds(handle, &empty, &id, 1, &count) == BAD_PARAM);
  EXPECT(P.GetApplicableEngineIds(handle, &graph, NULL, 1, &count) == BAD_PARAM);
  EXPECT(P.GetApplicableEngineIds(handle, &graph, &id, 1, NULL) == BAD_PARAM);
  EXPECT(P.GetApplicableEngineIds(handle, &noise, &id, 1, &count) == INVALID_VALUE && count == 0);
  EXPECT(*last_error());
  EXPECT(P.GetEngineDetails(handle, engine, &graph, NULL) == BAD_PARAM);
  EXPECT(P.GetEngineDetails(handle, 77, &graph, &out) == INVALID_VALUE && !out.ptr && !out.size);
  EXPECT(strstr(last_error(), "77"));
  EXPECT(P.DestroyEngineDetails(handle, NULL) == BAD_PARAM);
  EXPECT(P.DestroyEngineDetails(handle, &empty) == BAD_PARAM);
  EXPECT(P.GetWorkspaceSize(handle, NULL, &graph, &size) == BAD_PARAM);
  EXPECT(P.GetWorkspaceSize(handle, &config, &graph, NULL) == BAD_PARAM);
  EXPECT(P.GetWorkspaceSize(handle, &noise, &graph, &size) == INVALID_VALUE);
  EXPECT(P.CreateExecutionContext(handle, &config, &graph, NULL) == BAD_PARAM);
  EXPECT(P.CreateExecutionContext(handle, &config, &noise, &ctx2) == INVALID_VALUE && !ctx2);
  EXPECT(P.CreateExecutionContext(handle, &noise, &graph, &ctx2) == INVALID_VALUE && !ctx2);
  EXPECT(P.CreateExecutionContext(handle, &config, NULL, &ctx2) == BAD_PARAM && !ctx2);
  if (era > N25) {
    EXPECT(P.CreateFromSerialized(handle, &noise, &ctx2) == INVALID_VALUE && !ctx2);
    EXPECT(P.CreateFromSerialized(handle, NULL, &ctx2) == BAD_PARAM);
  }
  plan_t made = plan(handle);
  void* workspace = made.space.data;
  context = made.context;
  EXPECT(P.GetWorkspaceSizeFromExecutionContext(handle, stranger, &size) == BAD_PARAM);
  EXPECT(P.GetWorkspaceSizeFromExecutionContext(handle, context, NULL) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, NULL, 0) == BAD_PARAM);
  EXPECT(strstr(last_error(), "BIND-01"));
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count - 1) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, NULL, job.count) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, stranger, workspace, job.buffers, job.count) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(stranger, context, workspace, job.buffers, job.count) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(NULL, NULL, NULL, NULL, 0) == BAD_PARAM);
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, context, &size));
  printf("workspace %zu\n", size);
  EXPECT(!P.ExecuteOpGraph(handle, context, NULL, job.buffers, job.count)); /* the plugin has one */
  buffer_t hole[MOST];
  memcpy(hole, job.buffers, sizeof hole);
  hole[0].ptr = NULL;
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, hole, job.count) == BAD_PARAM);
  EXPECT(strstr(last_error(), "BIND-08"));
  hole[job.count] = job.buffers[0]; /* one uid twice */
  hole[job.count].ptr = job.buffers[1].ptr;
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, hole, job.count + 1) == BAD_PARAM);
  hole[0] = job.buffers[0];
  hole[job.count] = (buffer_t){123456789, stranger}; /* an extra one is fine */
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, hole, job.count + 1));
  if (era > N25) {
    EXPECT(!P.ExecuteOpGraphWithOverrides(handle, context, workspace, job.buffers, job.count, 0, NULL, NULL, NULL,
                                          NULL));
    EXPECT(P.Serialize(handle, stranger, &out) == BAD_PARAM && P.DestroySerialized(handle, &out) == BAD_PARAM);
  }
  if (era == NEW) EXPECT(P.SerializeWithId(handle, 5, context, &out) == INVALID_VALUE);
  pthread_t thread;
  pthread_create(&thread, NULL, other_thread_error, NULL);
  pthread_join(thread, NULL);
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
  EXPECT(!P.DestroyExecutionContext(handle, context));
  EXPECT(P.DestroyExecutionContext(handle, context) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count) == BAD_PARAM);
  context = plan(handle).context; /* left over, goes with the handle */
  EXPECT(!P.Destroy(handle));
  EXPECT(P.Destroy(handle) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count) == BAD_PARAM);
  printf("checked yes\n");
  return 0;
}

static int override(const plan_t* p, void* context, const job_t* job, const shapes_t* s) {
  return P.ExecuteOpGraphWithOverrides(p->handle, context, p->space.data, job->buffers, job->count, s->count, s->uids,
                                       s->ranks, s->dims, s->strides);
}

static void* loaded_from(const plan_t* p) {
  void* loaded = NULL;
  data_t bytes = {NULL, 0};
  EXPECT(!P.SerializeWithId(p->handle, engine, p->context, &bytes));
  EXPECT(!P.CreateFromSerialized(p->handle, &bytes, &loaded));
  EXPECT(!P.DestroySerialized(p->handle, &bytes));
  return loaded;
}

/* shapes GRAPH CONFIG LIST PASSES: one plan executed at many shapes, each with buffers of its own.  Lines of LIST:
 * status, JOB and SHAPES.  The second pass is for the plan saved and loaded.  Prints what each call took, and the
 * text of a refusal, which must leave the outputs alone. */
static int shapes(char** args) {
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  void* handle = NULL;
  EXPECT(!P.Create(&handle));
  double begin = now();
  plan_t made = plan(handle);
  printf("planned_ms %.1f\n", (now() - begin) * 1e3);
  void* loaded = loaded_from(&made);
  for (int pass = 0; pass < atoi(args[3]); ++pass) {
    FILE* list = fopen(args[2], "r");
    char job_path[4096], shapes_path[4096];
    int wanted;
    while (fscanf(list, "%d\t%4095[^\t\n]\t%4095[^\t\n]", &wanted, job_path, shapes_path) == 3) {
      job_t job;
      shapes_t s;
      read_job(job_path, &job);
      read_shapes(shapes_path, &s);
      begin = now();
      int status = override(&made, pass ? loaded : made.context, &job, &s);
      printf("call_ms %.3f\n", (now() - begin) * 1e3);
      if (status) {
        printf("error %d ", status);
        for (const char* c = last_error(); *c; ++c) putchar(*c == '\n' ? '|' : *c);
        putchar('\n');
      }
      intact(&made, &job);
      EXPECT(status == wanted);
      for (uint32_t b = 0; status && b < job.count; ++b)
        for (size_t k = 0; k < job.bytes[b] && strcmp(job.out[b], "-"); ++k)
          EXPECT(((unsigned char*)job.buffers[b].ptr)[k] == 0xA5);
      if (!status) write_results(&job);
      free_job(&job);
    }
    fclose(list);
  }
  EXPECT(!P.Destroy(handle));
  return 0;
}

/* overrides GRAPH CONFIG JOB SHAPES: other dims for some tensors; the buffers of JOB have the sizes for these;
 * also for the plan saved to and loaded from bytes */
static int overrides(char** args) {
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  shapes_t s;
  read_job(args[2], &job);
  read_shapes(args[3], &s);
  void* handle = NULL;
  EXPECT(!P.Create(&handle));
  plan_t made = plan(handle);
  EXPECT(!override(&made, made.context, &job, &s));
  double begin = now();
  for (int k = 0; k < 1000; ++k) EXPECT(!override(&made, made.context, &job, &s));
  printf("again_us %.3f\n", (now() - begin) * 1e3);
  write_results(&job);
  EXPECT(!override(&made, loaded_from(&made), &job, &s));
  intact(&made, &job);
  s.rows[0][0] += 1; /* fits the other operands no more, or the memory */
  s.uids[0] += 1000000;
  EXPECT(override(&made, made.context, &job, &s) == INVALID_VALUE && strstr(last_error(), "SHAPE-01"));
  EXPECT(P.ExecuteOpGraphWithOverrides(handle, made.context, made.space.data, job.buffers, job.count, 1, NULL, s.ranks,
                                       s.dims, s.strides) == BAD_PARAM);
  s.dims[0] = NULL;
  EXPECT(override(&made, made.context, &job, &s) == BAD_PARAM);
  s.ranks[0] = 1000000;
  EXPECT(override(&made, made.context, &job, &s) == BAD_PARAM);
  EXPECT(!P.Destroy(handle));
  printf("overridden yes\n");
  return 0;
}

/* serialized GRAPH CONFIG JOB FILE: a plan saved, loaded and run; damaged ones refused */
static int serialized(char** args) {
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  void *handle = NULL, *loaded = NULL;
  data_t bytes = {NULL, 0}, old = {NULL, 0};
  size_t size = 0, again = 1;
  EXPECT(!P.Create(&handle));
  plan_t made = plan(handle);
  void *context = made.context, *workspace = made.space.data;
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, context, &size));
  EXPECT(!P.SerializeWithId(handle, engine, context, &bytes) && bytes.ptr && bytes.size);
  EXPECT(!P.Serialize(handle, context, &old) && old.size == bytes.size && !memcmp(old.ptr, bytes.ptr, old.size));
  EXPECT(!P.DestroySerialized(handle, &old) && !old.ptr && !old.size);
  EXPECT(!P.DestroyExecutionContext(handle, context));
  EXPECT(!P.CreateFromSerialized(handle, &bytes, &loaded) && loaded);
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, loaded, &again) && again == size);
  EXPECT(!P.ExecuteOpGraph(handle, loaded, workspace, job.buffers, job.count));
  write_results(&job);
  intact(&made, &job);
  EXPECT(!P.DestroyExecutionContext(handle, loaded));
  char* copy = malloc(bytes.size);
  unsigned seed = 1, refused = 0;
  for (int k = 0; k < 300; ++k) {
    memcpy(copy, bytes.ptr, bytes.size);
    data_t damaged = {copy, bytes.size};
    seed = seed * 1103515245u + 12345u;
    if (k % 3 == 0) damaged.size = seed % bytes.size + (seed % bytes.size == 0);
    else copy[seed % bytes.size] ^= (char)(1 << (seed >> 28) % 8);
    int status = P.CreateFromSerialized(handle, &damaged, &loaded);
    EXPECT((status == 2 || status == 5) && !loaded && *last_error());
    ++refused;
  }
  FILE* f = fopen(args[3], "wb");
  fwrite(bytes.ptr, 1, bytes.size, f);
  fclose(f);
  EXPECT(!P.DestroySerialized(handle, &bytes));
  EXPECT(!P.Destroy(handle));
  printf("refused %u\n", refused);
  return 0;
}

/* restore FILE JOB: in a process that never saw the graph */
static int restore(char** args) {
  double begin = now();
  load(-1);
  data_t bytes = slurp(args[0]);
  job_t job;
  read_job(args[1], &job);
  void *handle = NULL, *context = NULL;
  size_t size = 0;
  EXPECT(!P.Create(&handle));
  int status = P.CreateFromSerialized(handle, &bytes, &context);
  printf("status %d\nerror %s\n", status, status ? last_error() : "");
  if (status) return 0;
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, context, &size));
  EXPECT(!P.ExecuteOpGraph(handle, context, malloc(size + 1), job.buffers, job.count));
  printf("total_s %.6f\n", now() - begin);
  write_results(&job);
  return 0;
}

/* fuzz CONFIG CORPUS ANSWERS: mutated buffers, each with its length before it; CORPUS may be a pipe,
 * and then each buffer is answered by a line in ANSWERS before the next one is read: the status, the
 * number of engines, the worst status of the other calls, CPU seconds of the slowest call, KiB resident */
static double slowest_call;
static int timed_status;
#define TIMED(call) \
  (began = cpu_now(), timed_status = (call), began = cpu_now() - began, \
   slowest_call = began > slowest_call ? began : slowest_call, timed_status)

static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fuzz(char** args) {
  load(4);
  config = slurp(args[0]);
  FILE *corpus = fopen(args[1], "rb"), *answers = fopen(args[2], "w");
  EXPECT(corpus && answers);
  void* handle = NULL;
  EXPECT(!P.Create(&handle));
  long statuses[8] = {0}, served = 0, total = 0;
  uint32_t length;
  while (fread(&length, 4, 1, corpus) == 1) {
    uint32_t count = 5;
    int64_t id;
    int worst = 0, other;
    double began;
    char* copy = malloc(length ? length : 1); /* so that valgrind sees a read past the end */
    EXPECT(fread(copy, 1, length, corpus) == length);
    data_t mutated = {copy, length}, details = {NULL, 0};
    size_t size;
    void* context = NULL;
    slowest_call = 0;
    int status = TIMED(P.GetApplicableEngineIds(handle, &mutated, &id, 1, &count));
    EXPECT(status >= 0 && status <= 6 && count <= 1);
    EXPECT(!status || (!count && *last_error()));
    ++statuses[status];
    ++total;
#define OTHER(call) (other = TIMED(call), worst = other == 3 || other == 4 ? other : worst, other)
    if (!count) {
      EXPECT(OTHER(P.GetWorkspaceSize(handle, &config, &mutated, &size)));
      EXPECT(OTHER(P.CreateExecutionContext(handle, &config, &mutated, &context)) && !context);
    } else {
      ++served;
      EXPECT(!OTHER(P.GetWorkspaceSize(handle, &config, &mutated, &size)));
      EXPECT(!OTHER(P.GetEngineDetails(handle, engine, &mutated, &details)));
      EXPECT(!P.DestroyEngineDetails(handle, &details));
    }
    int rc = OTHER(P.GetWorkspaceSize(handle, &mutated, &mutated, &size)); /* as a configuration, too */
    EXPECT(rc >= 0 && rc <= 6);
    rc = OTHER(P.CreateFromSerialized(handle, &mutated, &context)); /* and as a plan */
    EXPECT(rc > 0 && rc <= 6 && !context);
    free(copy);
    fprintf(answers, "%d %u %d %.6f %ld %s\n", status, count, worst, slowest_call, resident_kib(),
            status == 3 || status == 4 || worst ? last_error() : "");
    fflush(answers);
  }
  EXPECT(!P.Destroy(handle));
  printf("total %ld\nserved %ld\n", total, served);
  for (int k = 0; k < 7; ++k) printf("status_%d %ld\n", k, statuses[k]);
  return 0;
}

const scenario_t graph_scenarios[] = {
    {"run", run, 4}, {"threads", threads, 5}, {"errors", errors, 3}, {"overrides", overrides, 4}, {"shapes", shapes, 4},
    {"serialized", serialized, 4}, {"restore", restore, 2}, {"fuzz", fuzz, 3},
    {"in_place", in_place, 6}, {"stack", on_stack, 4}, {NULL, NULL, 0},
};
