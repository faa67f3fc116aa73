/* A host of the plugin in C: what hipDNN's backend does, in its order, for the tests.
 *
 *   host LIBRARY MODE SCENARIO [ARGUMENTS]
 *
 * MODE is local (hipDNN of 2026) or deepbind (of November 2025).  One line of "key value" facts
 * for each thing that a test looks at goes to stdout; a broken expectation ends with status 1.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { const void* ptr; size_t size; } data_t;
typedef struct { int64_t uid; void* ptr; } buffer_t;

static struct {
  int (*GetName)(const char**);
  int (*GetVersion)(const char**);
  int (*GetType)(int*);
  void (*GetLastErrorString)(const char**);
  int (*GetApiVersion)(const char**);
  int (*SetLoggingCallback)(void (*)(int, const char*));
  int (*SetLogLevel)(int);
  int (*GetAllEngineIds)(int64_t*, uint32_t, uint32_t*);
  int (*GetEngineName)(int64_t, const char**);
  int (*Create)(void**);
  int (*Destroy)(void*);
  int (*SetStream)(void*, void*);
  int (*GetApplicableEngineIds)(void*, const data_t*, int64_t*, uint32_t, uint32_t*);
  int (*GetEngineDetails)(void*, int64_t, const data_t*, data_t*);
  int (*DestroyEngineDetails)(void*, data_t*);
  int (*GetWorkspaceSize)(void*, const data_t*, const data_t*, size_t*);
  int (*CreateExecutionContext)(void*, const data_t*, const data_t*, void**);
  int (*DestroyExecutionContext)(void*, void*);
  int (*GetWorkspaceSizeFromExecutionContext)(void*, void*, size_t*);
  int (*ExecuteOpGraph)(void*, void*, void*, const buffer_t*, uint32_t);
  int (*ExecuteOpGraphWithOverrides)(void*, void*, void*, const buffer_t*, uint32_t, uint32_t, const int64_t*,
                                     const uint32_t*, const int64_t* const*, const int64_t* const*);
  int (*SerializeWithId)(void*, int64_t, void*, data_t*);
  int (*Serialize)(void*, void*, data_t*);
  int (*DestroySerialized)(void*, data_t*);
  int (*CreateFromSerialized)(void*, const data_t*, void**);
} P;

static int64_t engine;
static const char* library_path;
static int library_flags;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char* last_error(void) {
  const char* text = NULL;
  P.GetLastErrorString(&text);
  return text ? text : "(null)";
}

static atomic_int leaving; /* main has returned: whatever a call answers now, it is no success */

#define EXPECT(condition) \
  do { if (!(condition)) { while (atomic_load(&leaving)) usleep(1000); \
      printf("FAILED %s:%d %s [%s]\n", __FILE__, __LINE__, #condition, last_error()); \
      fflush(stdout); _exit(1); } } while (0)

static void* open_library(void) {
  void* so = dlopen(library_path, library_flags);
  if (!so) { printf("FAILED dlopen %s\n", dlerror()); exit(1); }
  static const struct { void* slot; const char* name; } names[] = {
#define F(field, name) {&P.field, name}
      F(GetName, "hipdnnPluginGetName"), F(GetVersion, "hipdnnPluginGetVersion"), F(GetType, "hipdnnPluginGetType"),
      F(GetLastErrorString, "hipdnnPluginGetLastErrorString"), F(GetApiVersion, "hipdnnPluginGetApiVersion"),
      F(SetLoggingCallback, "hipdnnPluginSetLoggingCallback"), F(SetLogLevel, "hipdnnPluginSetLogLevel"),
      F(GetAllEngineIds, "hipdnnEnginePluginGetAllEngineIds"), F(GetEngineName, "hipdnnEnginePluginGetEngineName"),
      F(Create, "hipdnnEnginePluginCreate"), F(Destroy, "hipdnnEnginePluginDestroy"),
      F(SetStream, "hipdnnEnginePluginSetStream"),
      F(GetApplicableEngineIds, "hipdnnEnginePluginGetApplicableEngineIds"),
      F(GetEngineDetails, "hipdnnEnginePluginGetEngineDetails"),
      F(DestroyEngineDetails, "hipdnnEnginePluginDestroyEngineDetails"),
      F(GetWorkspaceSize, "hipdnnEnginePluginGetWorkspaceSize"),
      F(CreateExecutionContext, "hipdnnEnginePluginCreateExecutionContext"),
      F(DestroyExecutionContext, "hipdnnEnginePluginDestroyExecutionContext"),
      F(GetWorkspaceSizeFromExecutionContext, "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext"),
      F(ExecuteOpGraph, "hipdnnEnginePluginExecuteOpGraph"),
      F(ExecuteOpGraphWithOverrides, "hipdnnEnginePluginExecuteOpGraphWithOverrides"),
      F(SerializeWithId, "hipdnnEnginePluginSerializeExecutionContextWithEngineId"),
      F(Serialize, "hipdnnEnginePluginSerializeExecutionContext"),
      F(DestroySerialized, "hipdnnEnginePluginDestroySerializedExecutionContext"),
      F(CreateFromSerialized, "hipdnnEnginePluginCreateExecutionContextFromSerialized"),
  };
  for (size_t k = 0; k < sizeof names / sizeof *names; ++k) {
    *(void**)names[k].slot = dlsym(so, names[k].name);
    if (!*(void**)names[k].slot) { printf("FAILED no symbol %s\n", names[k].name); exit(1); }
  }
  return so;
}

static atomic_int logged;
static void on_log(int severity, const char* text) {
  atomic_fetch_add(&logged, 1);
  if (getenv("HOST_SHOW_LOG")) { printf("log %d %s\n", severity, text); fflush(stdout); }
}

/* What happens to a library before the first handle. */
static void* load(int level) {
  void* so = open_library();
  const char* text = NULL;
  int type = 0;
  uint32_t count = 0, again = 0;
  EXPECT(!P.GetType(&type) && type == 1);
  EXPECT(!P.GetName(&text) && text && *text);
  EXPECT(!P.GetVersion(&text) && text && *text);
  EXPECT(!P.SetLoggingCallback(on_log));
  if (level >= 0) EXPECT(!P.SetLogLevel(level));
  EXPECT(!P.GetApiVersion(&text) && !strncmp(text, "1.", 2));
  engine = 0x018824D4D02D5223;
  if (getenv("HOST_UNLISTED")) return so; /* the first call that needs Python comes later */
  if (P.GetAllEngineIds(NULL, 0, &count)) { printf("unlisted %s\n", last_error()); return so; }
  EXPECT(count == 1);
  EXPECT(!P.GetAllEngineIds(&engine, 1, &again) && again == 1);
  EXPECT(!P.GetEngineName(engine, &text) && !strcmp(text, "IREE_JIT_ENGINE"));
  return so;
}

static data_t slurp(const char* path) {
  FILE* f = fopen(path, "rb");
  if (!f) { printf("FAILED %s: %s\n", path, strerror(errno)); exit(1); }
  fseek(f, 0, SEEK_END);
  size_t size = (size_t)ftell(f);
  rewind(f);
  void* memory = malloc(size ? size : 1);
  if (fread(memory, 1, size, f) != size) exit(1);
  fclose(f);
  return (data_t){memory, size};
}

static long resident_kib(void) {
  long pages = 0, unused = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  if (f) { if (fscanf(f, "%ld %ld", &unused, &pages) != 2) pages = 0; fclose(f); }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ------------------------------------------------------------------ graphs with their buffers */

/* Memory between two zones, which `intact` finds as they were.  They are 0xFF, a NaN in every type, around what is
 * read, and something else around what is written: NaNs that were read would be written with the same bits. */
enum { ZONE = 4096, ZONED = 1024 };
enum { READ = 0xFF, WRITTEN = 0x5A };
static struct { unsigned char *begin, fill; size_t bytes; } zoned[ZONED];
static atomic_uint zones;

static void* guarded(size_t bytes, size_t skew, unsigned char fill) {
  unsigned k = atomic_fetch_add(&zones, 1);
  if (k >= ZONED) return malloc(bytes); /* of scenarios that plan without end */
  unsigned char* memory = aligned_alloc(64, (2 * ZONE + skew + bytes + 63) / 64 * 64);
  memset(memory, fill, 2 * ZONE + skew + bytes);
  zoned[k].bytes = bytes, zoned[k].fill = fill;
  return zoned[k].begin = memory + ZONE + skew;
}

static int intact(void) {
  for (unsigned k = 0; k < zones && k < ZONED; ++k)
    for (int at = 0; at < ZONE; ++at)
      if (zoned[k].begin[at - ZONE] != zoned[k].fill || zoned[k].begin[zoned[k].bytes + (size_t)at] != zoned[k].fill)
        return 0;
  return 1;
}

enum { MOST = 32 };
typedef struct { buffer_t buffers[MOST]; size_t bytes[MOST]; char out[MOST][4096]; uint32_t count; } job_t;

/* Lines of: uid bytes skew file-to-read|- file-to-write|-, with tabs between, as paths may have blanks */
static void read_job(const char* path, job_t* job) {
  FILE* f = fopen(path, "r");
  char in[4096];
  size_t skew;
  job->count = 0;
  while (fscanf(f, "%" SCNd64 " %zu %zu %4095[^\t\n] %4095[^\t\n]", &job->buffers[job->count].uid, &job->bytes[job->count], &skew, in,
                job->out[job->count]) == 5) {
    size_t bytes = job->bytes[job->count];
    char* memory = guarded(bytes, skew, strcmp(job->out[job->count], "-") ? WRITTEN : READ);
    memset(memory, 0xA5, bytes);
    if (strcmp(in, "-")) {
      data_t from = slurp(in);
      if (from.size != bytes) { printf("FAILED %s has %zu bytes, wanted %zu\n", in, from.size, bytes); exit(1); }
      memcpy(memory, from.ptr, bytes);
    }
    job->buffers[job->count++].ptr = memory;
  }
  fclose(f);
}

static void write_results(const job_t* job) {
  EXPECT(intact());
  for (uint32_t k = 0; k < job->count; ++k) {
    if (!strcmp(job->out[k], "-")) continue;
    FILE* f = fopen(job->out[k], "wb");
    fwrite(job->buffers[k].ptr, 1, job->bytes[k], f);
    fclose(f);
  }
}

static data_t graph, config;

/* From the graph to a context, as hipDNN goes about it. */
static void* plan(void* handle, void** workspace) {
  uint32_t count = 9;
  int64_t id = 0;
  size_t size = 0;
  void* context = NULL;
  data_t details = {NULL, 0};
  EXPECT(!P.GetApplicableEngineIds(handle, &graph, &id, 1, &count));
  EXPECT(count == 1 && id == engine);
  EXPECT(!P.GetEngineDetails(handle, engine, &graph, &details) && details.ptr && details.size);
  EXPECT(!P.GetWorkspaceSize(handle, &config, &graph, &size));
  EXPECT(!P.CreateExecutionContext(handle, &config, &graph, &context) && context);
  EXPECT(!P.DestroyEngineDetails(handle, &details) && !details.ptr && !details.size);
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, context, &size));
  *workspace = size && !getenv("HOST_NULL_WORKSPACE") ? guarded(size, 0, WRITTEN) : NULL;
  return context;
}

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
static void rotate(void* handle, void* context, void* workspace, const job_t* job, int calls, size_t skew,
                   const char* name) {
  buffer_t* sets = malloc(SETS * sizeof job->buffers);
  for (uint32_t b = 0; b < job->count; ++b) {
    char* memory = aligned_alloc(64, (job->bytes[b] + 64 * SETS + 191) / 64 * 64);
    for (size_t at = 0; at < job->bytes[b] + 64 * SETS; ++at) memory[at] = 0;
    for (int k = 0; k < SETS; ++k) sets[k * MOST + b] = (buffer_t){job->buffers[b].uid, memory + 64 * k + skew};
  }
  double* times = malloc(sizeof(double) * (size_t)calls);
  for (int k = -calls / 10; k < calls; ++k) { /* those before 0 are not counted */
    double t = now();
    EXPECT(!P.ExecuteOpGraph(handle, context, workspace, sets + (k + calls) % SETS * MOST, job->count));
    if (k >= 0) times[k] = now() - t;
  }
  qsort(times, (size_t)calls, sizeof *times, ascending);
  printf("%s_us %.3f\n%s_median_us %.3f\n", name, times[0] * 1e6, name, times[calls / 2] * 1e6);
}

/* run GRAPH CONFIG JOB ITERATIONS */
static int run(char** args) {
  double begin = now();
  load(-1);
  void *handle = NULL, *workspace = NULL;
  EXPECT(!P.Create(&handle) && handle);
  double started = now();
  EXPECT(!P.SetStream(handle, NULL));
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  void* context = plan(handle, &workspace);
  double planned = now();
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
  double first = now();
  struct timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  printf("cpu_s %.6f\n", (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9);
  printf("compiler_mapped %d\n", mapped("libIREECompiler") || mapped("torch_mlir"));
  write_results(&job);
  int iterations = atoi(args[3]);
  for (int k = 0; k < iterations / 10; ++k) P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count);
  long before = resident_kib();
  double loop = now(), best = 1e9;
  for (int k = 0; k < iterations; ++k) {
    double t = now();
    EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
    t = now() - t;
    if (t < best) best = t;
  }
  loop = now() - loop;
  printf("start_s %.6f\nplan_s %.6f\nfirst_s %.6f\ntotal_s %.6f\n", started - begin, planned - started, first - planned,
         first - begin);
  if (iterations)
    printf("mean_us %.3f\nbest_us %.3f\ngrowth_kib %ld\n", loop / iterations * 1e6, best * 1e6, resident_kib() - before);
  if (iterations) rotate(handle, context, workspace, &job, iterations, 0, "rotating");
  if (iterations) rotate(handle, context, workspace, &job, iterations, 16, "copied");
  EXPECT(!P.DestroyExecutionContext(handle, context));
  EXPECT(!P.Destroy(handle));
  return 0;
}

/* threads GRAPH CONFIG JOB ITERATIONS THREADS: a handle, a context and buffers each */
static char** thread_args;
static void* worker(void* unused) {
  (void)unused;
  void *handle = NULL, *workspace = NULL;
  job_t job, reference;
  read_job(thread_args[2], &job);
  read_job(thread_args[2], &reference);
  EXPECT(!P.Create(&handle));
  void* context = plan(handle, &workspace);
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, reference.buffers, reference.count));
  for (int k = 0; k < atoi(thread_args[3]); ++k) {
    EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
    if (k % 64) continue;
    for (uint32_t b = 0; b < job.count; ++b) {
      EXPECT(!memcmp(job.buffers[b].ptr, reference.buffers[b].ptr, job.bytes[b]));
      if (strcmp(job.out[b], "-")) memset(job.buffers[b].ptr, k, job.bytes[b]);
    }
  }
  EXPECT(!P.DestroyExecutionContext(handle, context));
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
  void *handle = NULL, *workspace = NULL;
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  EXPECT(!P.Create(&handle));
  void* context = plan(handle, &workspace);
  buffer_t *output = NULL, *input = NULL;
  for (uint32_t b = 0; b < job.count; ++b) {
    if (job.buffers[b].uid == atol(args[3])) output = &job.buffers[b];
    if (job.buffers[b].uid == atol(args[4])) input = &job.buffers[b];
  }
  EXPECT(output && input);
  output->ptr = (char*)input->ptr + atol(args[5]);
  int status = P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count);
  printf("status %d\nerror ", status);
  for (const char* at = status ? last_error() : ""; *at; ++at) putchar(*at == '\n' ? ' ' : *at);
  printf("\n");
  write_results(&job);
  return 0;
}

/* stack GRAPH CONFIG JOB KIB: everything happens on threads with such a stack, one after another */
static job_t stack_job;
static void* on_small_stack(void* unused) {
  (void)unused;
  void *handle = NULL, *workspace = NULL;
  uint32_t count = 0;
  EXPECT(!P.GetAllEngineIds(NULL, 0, &count) && count == 1);
  EXPECT(!P.Create(&handle) && handle);
  EXPECT(P.CreateExecutionContext(handle, NULL, NULL, NULL) && *last_error());
  void* context = plan(handle, &workspace);
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, stack_job.buffers, stack_job.count));
  double begin = now();
  for (int k = 0; k < 1000; ++k)
    EXPECT(!P.ExecuteOpGraph(handle, context, workspace, stack_job.buffers, stack_job.count));
  printf("call_us %.3f\n", (now() - begin) * 1e3);
  EXPECT(P.ExecuteOpGraph(handle, NULL, NULL, NULL, 0) && strstr(last_error(), "context"));
  EXPECT(!P.SetLogLevel(3));
  EXPECT(!P.DestroyExecutionContext(handle, context));
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

/* exit GRAPH CONFIG JOB: main returns while threads execute.  A function that was registered during
 * that, as destructors of C++ are, runs when no other thread executes; its own may still call. */
static atomic_int destroyed, executing;
static void* kept;

static void destruct(void) {
  usleep(100000); /* for threads that are on the way out of their last call */
  atomic_store(&destroyed, 1);
  int status = P.Destroy(kept);
  if (status && status != 3) _exit(4); /* 3: other calls have not ended within the limit */
  usleep(100000);
}

static void* forever(void* unused) {
  (void)unused;
  void *handle = NULL, *workspace = NULL;
  job_t job;
  read_job(thread_args[2], &job);
  EXPECT(!P.Create(&handle));
  void* context = plan(handle, &workspace);
  for (long k = 0; !P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count); ++k) {
    if (!k) atomic_fetch_add(&executing, 1);
    if (atomic_load(&destroyed)) _exit(3);
  }
  while (1) usleep(1000); /* refused: the process is about to end */
}

static int leave(char** args) {
  load(-1);
  graph = slurp(args[0]), config = slurp(args[1]);
  thread_args = args;
  pthread_t id;
  EXPECT(!P.Create(&kept)); /* stays alive, as that of a static object */
  for (int k = 0; k < 3; ++k) pthread_create(&id, NULL, forever, NULL);
  int delay_ms = atoi(args[3]); /* -1: until all execute */
  if (delay_ms < 0) while (atomic_load(&executing) < 3) usleep(1000);
  else usleep((unsigned)delay_ms * 1000);
  atexit(destruct);
  printf("left yes\n");
  fflush(stdout);
  atomic_store(&leaving, 1);
  return 0;
}

/* ------------------------------------------------------------------ life cycle */

static void* storm_worker(void* unused) {
  (void)unused;
  for (int k = 0; k < 50; ++k) {
    void* handles[20];
    for (int h = 0; h < 20; ++h) {
      EXPECT(!P.Create(&handles[h]) && handles[h]);
      EXPECT(!P.SetStream(handles[h], NULL));
    }
    for (int h = 0; h < 20; ++h) EXPECT(!P.Destroy(handles[h]));
  }
  return NULL;
}

/* storm: handles made and freed by threads that all make the first call; then short threads */
static int storm(char** args) {
  (void)args;
  load(4);
  pthread_t ids[8];
  for (int k = 0; k < 8; ++k) pthread_create(&ids[k], NULL, storm_worker, NULL);
  for (int k = 0; k < 8; ++k) pthread_join(ids[k], NULL);
  long before = 0;
  for (int k = 0; k < 60; ++k) {
    if (k == 20) before = resident_kib();
    for (int j = 0; j < 8; ++j) pthread_create(&ids[j], NULL, storm_worker, NULL);
    for (int j = 0; j < 8; ++j) pthread_join(ids[j], NULL);
    if (k == 3 && getenv("HOST_BRIEF")) return 0;
  }
  printf("growth_kib %ld\n", resident_kib() - before);
  return 0;
}

/* reload: rounds of dlopen, handle, dlclose */
static int reload(char** args) {
  int rounds = atoi(args[0]);
  for (int k = 0; k < rounds; ++k) {
    void *handle = NULL, *so = load(4);
    EXPECT(!P.Create(&handle));
    EXPECT(!P.Destroy(handle));
    EXPECT(!dlclose(so));
  }
  printf("rounds %d\n", rounds);
  return 0;
}

/* start: load and one handle; how long, and what does a failure say */
static int start(char** args) {
  (void)args;
  double begin = now();
  void *so = load(-1), *handle = (void*)1;
  double loaded = now();
  int status = P.Create(&handle);
  printf("load_s %.6f\ncreate_s %.6f\nstatus %d\nerror %s\n", loaded - begin, now() - loaded, status,
         status ? last_error() : "");
  if (status) {
    uint32_t count = 7;
    EXPECT(P.GetApplicableEngineIds(handle, &graph, NULL, 0, &count) == 3 && count == 7);
    EXPECT(P.ExecuteOpGraph(handle, handle, NULL, NULL, 0) == 3);
    EXPECT(P.Destroy(handle) == 3);
    EXPECT(*last_error());
  }
  printf("logged %d\n", atomic_load(&logged));
  dlclose(so);
  return 0;
}

/* ------------------------------------------------------------------ errors */

static void* other_thread_error(void* unused) {
  (void)unused;
  EXPECT(!*last_error()); /* the text of another thread is none of ours */
  EXPECT(P.Destroy(NULL) == 1);
  EXPECT(strstr(last_error(), "handle is null"));
  return NULL;
}

/* errors GRAPH CONFIG JOB: something wrong at every step */
static int errors(char** args) {
  enum { BAD_PARAM = 1, INVALID_VALUE = 2, NOT_APPLICABLE = 5 };
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
  void *handle = NULL, *context = NULL, *workspace = NULL, *ctx2 = stranger;
  P.GetLastErrorString(NULL);
  EXPECT(P.GetName(NULL) == BAD_PARAM && P.GetVersion(NULL) == BAD_PARAM && P.GetType(NULL) == BAD_PARAM);
  EXPECT(P.GetApiVersion(NULL) == BAD_PARAM && P.GetAllEngineIds(NULL, 0, NULL) == BAD_PARAM);
  EXPECT(P.GetAllEngineIds(NULL, 4, &count) == BAD_PARAM);
  EXPECT(P.GetEngineName(engine + 1, &text) == NOT_APPLICABLE && P.GetEngineName(engine, NULL) == BAD_PARAM);
  EXPECT(P.SetLogLevel(9) == INVALID_VALUE && P.SetLogLevel(-1) == INVALID_VALUE);
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
  EXPECT(P.CreateFromSerialized(handle, &noise, &ctx2) == INVALID_VALUE && !ctx2);
  EXPECT(P.CreateFromSerialized(handle, NULL, &ctx2) == BAD_PARAM);
  context = plan(handle, &workspace);
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
  EXPECT(!P.ExecuteOpGraphWithOverrides(handle, context, workspace, job.buffers, job.count, 0, NULL, NULL, NULL, NULL));
  EXPECT(P.SerializeWithId(handle, 5, context, &out) == INVALID_VALUE);
  EXPECT(P.Serialize(handle, stranger, &out) == BAD_PARAM);
  EXPECT(P.DestroySerialized(handle, &out) == BAD_PARAM);
  pthread_t thread;
  pthread_create(&thread, NULL, other_thread_error, NULL);
  pthread_join(thread, NULL);
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
  EXPECT(!P.DestroyExecutionContext(handle, context));
  EXPECT(P.DestroyExecutionContext(handle, context) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count) == BAD_PARAM);
  context = plan(handle, &workspace); /* left over, goes with the handle */
  EXPECT(!P.Destroy(handle));
  EXPECT(P.Destroy(handle) == BAD_PARAM);
  EXPECT(P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count) == BAD_PARAM);
  printf("checked yes\n");
  return 0;
}

/* Dims and strides in place of those of a graph; a file has lines of: uid rank dims... strides... */
typedef struct {
  int64_t uids[MOST], dims[MOST][8], strides[MOST][8];
  const int64_t *shapes[MOST], *steps[MOST];
  uint32_t ranks[MOST], count;
} overrides_t;

static void read_overrides(const char* path, overrides_t* o) {
  FILE* f = fopen(path, "r");
  o->count = 0;
  while (f && fscanf(f, "%" SCNd64 " %u", &o->uids[o->count], &o->ranks[o->count]) == 2) {
    uint32_t n = o->count++;
    for (uint32_t k = 0; k < o->ranks[n]; ++k) EXPECT(fscanf(f, "%" SCNd64, &o->dims[n][k]) == 1);
    for (uint32_t k = 0; k < o->ranks[n]; ++k) EXPECT(fscanf(f, "%" SCNd64, &o->strides[n][k]) == 1);
    o->shapes[n] = o->dims[n], o->steps[n] = o->strides[n];
  }
  EXPECT(f && !fclose(f));
}

static int override(void* handle, void* context, void* workspace, const job_t* job, const overrides_t* o) {
  return P.ExecuteOpGraphWithOverrides(handle, context, workspace, job->buffers, job->count, o->count, o->uids,
                                       o->ranks, o->shapes, o->steps);
}

/* shapes GRAPH CONFIG LIST PASSES: one plan executed at many shapes, each with buffers of its own between red
 * zones.  Lines of LIST: status, JOB and SHAPES.  The second pass is for the plan saved and loaded.  Prints what
 * each call took, and the text of a refusal, which must leave the outputs alone. */
static int shapes(char** args) {
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  void *handle = NULL, *workspace = NULL, *loaded = NULL;
  data_t bytes = {NULL, 0};
  EXPECT(!P.Create(&handle));
  double begin = now();
  void* context = plan(handle, &workspace);
  printf("planned_ms %.1f\n", (now() - begin) * 1e3);
  EXPECT(!P.SerializeWithId(handle, engine, context, &bytes));
  EXPECT(!P.CreateFromSerialized(handle, &bytes, &loaded));
  EXPECT(!P.DestroySerialized(handle, &bytes));
  for (int pass = 0; pass < atoi(args[3]); ++pass) {
    FILE* list = fopen(args[2], "r");
    char job_path[4096], shapes_path[4096];
    int wanted;
    while (fscanf(list, "%d\t%4095[^\t\n]\t%4095[^\t\n]", &wanted, job_path, shapes_path) == 3) {
      job_t job;
      overrides_t o;
      read_job(job_path, &job);
      read_overrides(shapes_path, &o);
      begin = now();
      int status = override(handle, pass ? loaded : context, workspace, &job, &o);
      printf("call_ms %.3f\n", (now() - begin) * 1e3);
      if (status) {
        printf("error %d ", status);
        for (const char* c = last_error(); *c; ++c) putchar(*c == '\n' ? '|' : *c);
        putchar('\n');
      }
      EXPECT(intact());
      EXPECT(status == wanted);
      for (uint32_t b = 0; status && b < job.count; ++b)
        for (size_t k = 0; k < job.bytes[b] && strcmp(job.out[b], "-"); ++k)
          EXPECT(((unsigned char*)job.buffers[b].ptr)[k] == 0xA5);
      if (!status) write_results(&job);
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
  overrides_t o;
  read_job(args[2], &job);
  read_overrides(args[3], &o);
  void *handle = NULL, *workspace = NULL, *loaded = NULL;
  data_t bytes = {NULL, 0};
  EXPECT(!P.Create(&handle));
  void* context = plan(handle, &workspace);
  EXPECT(!override(handle, context, workspace, &job, &o));
  double begin = now();
  for (int k = 0; k < 1000; ++k) EXPECT(!override(handle, context, workspace, &job, &o));
  printf("again_us %.3f\n", (now() - begin) * 1e3);
  write_results(&job);
  EXPECT(!P.SerializeWithId(handle, engine, context, &bytes));
  EXPECT(!P.CreateFromSerialized(handle, &bytes, &loaded));
  EXPECT(!override(handle, loaded, workspace, &job, &o));
  EXPECT(!P.DestroySerialized(handle, &bytes));
  o.dims[0][0] += 1; /* fits the other operands no more, or the memory */
  o.uids[0] += 1000000;
  EXPECT(override(handle, context, workspace, &job, &o) == 2 && strstr(last_error(), "SHAPE-01"));
  EXPECT(P.ExecuteOpGraphWithOverrides(handle, context, workspace, job.buffers, job.count, 1, NULL, o.ranks,
                                       o.shapes, o.steps) == 1);
  o.shapes[0] = NULL;
  EXPECT(override(handle, context, workspace, &job, &o) == 1);
  o.ranks[0] = 1000000;
  EXPECT(override(handle, context, workspace, &job, &o) == 1);
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
  void *handle = NULL, *workspace = NULL, *loaded = NULL;
  data_t bytes = {NULL, 0}, old = {NULL, 0};
  size_t size = 0, again = 1;
  EXPECT(!P.Create(&handle));
  void* context = plan(handle, &workspace);
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, context, &size));
  EXPECT(!P.SerializeWithId(handle, engine, context, &bytes) && bytes.ptr && bytes.size);
  EXPECT(!P.Serialize(handle, context, &old) && old.size == bytes.size && !memcmp(old.ptr, bytes.ptr, old.size));
  EXPECT(!P.DestroySerialized(handle, &old) && !old.ptr && !old.size);
  EXPECT(!P.DestroyExecutionContext(handle, context));
  EXPECT(!P.CreateFromSerialized(handle, &bytes, &loaded) && loaded);
  EXPECT(!P.GetWorkspaceSizeFromExecutionContext(handle, loaded, &again) && again == size);
  EXPECT(!P.ExecuteOpGraph(handle, loaded, workspace, job.buffers, job.count));
  write_results(&job);
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

/* fork: a child cannot use what the parent started, and is told so */
static int forked(char** args) {
  (void)args;
  load(4);
  void* handle = NULL;
  EXPECT(!P.Create(&handle));
  pid_t child = fork();
  if (!child) {
    void* mine = NULL;
    int status = P.Create(&mine);
    exit(status == 3 && strstr(last_error(), "forked") ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
  EXPECT(!P.Destroy(handle));
  printf("forked yes\n");
  return 0;
}

/* embed LIBPYTHON PYTHON DELAY_MS: Python is the host's, which ends it while threads that Python
 * does not know start the plugin, call it, and end */
static atomic_int python_ended;

static void* short_worker(void* unused) {
  (void)unused;
  void* handle = NULL;
  if (!P.Create(&handle)) P.Destroy(handle);
  return NULL;
}

static void* embed_worker(void* spawns) {
  while (1) {
    void* handle = NULL;
    pthread_t id;
    if (spawns && !pthread_create(&id, NULL, short_worker, NULL)) pthread_join(id, NULL);
    int status = P.Create(&handle);
    if (!status) status = P.Destroy(handle);
    if (!status) continue;
    EXPECT(status == 3 && strstr(last_error(), "Python has ended"));
    if (atomic_load(&python_ended)) return NULL;
    usleep(100);
  }
}

static int embed(char** args) {
  void* python = dlopen(args[0], RTLD_NOW | RTLD_GLOBAL);
  if (!python) { printf("FAILED dlopen %s\n", dlerror()); exit(1); }
  wchar_t* (*decode)(const char*, size_t*) = dlsym(python, "Py_DecodeLocale");
  void (*set_name)(const wchar_t*) = dlsym(python, "Py_SetProgramName");
  void (*initialize)(int) = dlsym(python, "Py_InitializeEx");
  int (*finalize)(void) = dlsym(python, "Py_FinalizeEx");
  void* (*save)(void) = dlsym(python, "PyEval_SaveThread");
  void (*restore)(void*) = dlsym(python, "PyEval_RestoreThread");
  pthread_t ids[6];
  void* handle = NULL;
  set_name(decode(args[1], NULL));
  initialize(0);
  void* main_thread = save();
  load(4);
  for (int k = 0; k < 6; ++k) pthread_create(&ids[k], NULL, embed_worker, k % 2 ? args : NULL);
  usleep(atoi(args[2]) * 1000);
  restore(main_thread);
  EXPECT(!finalize());
  atomic_store(&python_ended, 1);
  for (int k = 0; k < 6; ++k) pthread_join(ids[k], NULL);
  EXPECT(P.Create(&handle) == 3 && strstr(last_error(), "Python has ended"));
  printf("ended yes\n");
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

/* crash GRAPH CONFIG JOB: the compiler's process is killed under a compilation; the next one works */
static atomic_int compiling;
static void* killer(void* unused) {
  (void)unused;
  char path[64];
  long killed = 0;
  while (atomic_load(&compiling)) {
    int child;
    snprintf(path, sizeof path, "/proc/self/task");
    DIR* tasks = opendir(path);
    for (struct dirent* entry; (entry = readdir(tasks));) {
      char file[320];
      snprintf(file, sizeof file, "/proc/self/task/%s/children", entry->d_name);
      FILE* f = fopen(file, "r");
      while (f && fscanf(f, "%d", &child) == 1) killed += !kill(child, SIGKILL);
      if (f) fclose(f);
    }
    closedir(tasks);
    usleep(20000);
  }
  return (void*)killed;
}

static int crash(char** args) {
  load(4);
  graph = slurp(args[0]), config = slurp(args[1]);
  job_t job;
  read_job(args[2], &job);
  void *handle = NULL, *workspace = NULL, *context = NULL, *killed = NULL;
  EXPECT(!P.Create(&handle));
  pthread_t thread;
  atomic_store(&compiling, 1);
  pthread_create(&thread, NULL, killer, NULL);
  int status = P.CreateExecutionContext(handle, &config, &graph, &context);
  printf("status %d\nerror %.400s\n", status, status ? last_error() : "");
  atomic_store(&compiling, 0);
  pthread_join(thread, &killed);
  EXPECT(status == 3 && !context && killed);
  context = plan(handle, &workspace);
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
  write_results(&job);
  printf("recovered yes\n");
  return 0;
}

/* signals GRAPH CONFIG JOB COUNT: SIGINT arrives at random moments, from before the first call on.
 * With COUNT 0 the handlers are compared, and then SIGINT ends the process. */
static atomic_long arrived, sent;
static void on_interrupt(int number) {
  (void)number;
  atomic_fetch_add(&arrived, 1);
}

static void* interrupter(void* most) {
  unsigned seed = 1;
  for (long k = 0; k < (long)most; ++k) {
    usleep(rand_r(&seed) % 400);
    while (k > (long)most / 3 && !atomic_load(&executing)) usleep(100);
    kill(getpid(), SIGINT);
    for (int ms = 0; atomic_load(&arrived) == k && ms < 20000; ++ms) usleep(1000);
    atomic_fetch_add(&sent, 1);
  }
  return NULL;
}

static int same_handler(const struct sigaction* a, const struct sigaction* b) {
  return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
         !memcmp(&a->sa_mask, &b->sa_mask, sizeof(unsigned long));
}

static int signals(char** args) {
  struct sigaction before[SIGRTMAX + 1], after;
  struct sigaction own = {.sa_handler = on_interrupt}; /* without SA_RESTART: waits end early */
  long most = atol(args[3]);
  pthread_t thread;
  if (most) {
    sigaction(SIGINT, &own, NULL);
    pthread_create(&thread, NULL, interrupter, (void*)most);
  }
  for (int k = 1; k <= SIGRTMAX; ++k) memset(&before[k], 0, sizeof *before), sigaction(k, NULL, &before[k]);
  load(-1);
  graph = slurp(args[0]), config = slurp(args[1]);
  void *handle = NULL, *workspace = NULL;
  job_t job, right;
  read_job(args[2], &job);
  read_job(args[2], &right);
  EXPECT(!P.Create(&handle));
  void* context = plan(handle, &workspace);
  EXPECT(!P.ExecuteOpGraph(handle, context, workspace, right.buffers, right.count));
  long calls = 0, wrong = 0;
  atomic_store(&executing, 1);
  do {
    for (uint32_t b = 0; b < job.count; ++b)
      if (strcmp(job.out[b], "-")) memset(job.buffers[b].ptr, 0x5A, job.bytes[b]);
    EXPECT(!P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count));
    for (uint32_t b = 0; b < job.count; ++b) wrong += !!memcmp(job.buffers[b].ptr, right.buffers[b].ptr, job.bytes[b]);
    ++calls;
  } while (atomic_load(&sent) < most);
  if (most) pthread_join(thread, NULL);
  write_results(&job);
  for (int k = 1; k <= SIGRTMAX; ++k) {
    memset(&after, 0, sizeof after);
    sigaction(k, NULL, &after);
    if (!same_handler(&before[k], &after)) printf("changed %d\n", k);
  }
  printf("calls %ld\nwrong %ld\narrived %ld\n", calls, wrong, (long)atomic_load(&arrived));
  fflush(stdout);
  while (!most) P.ExecuteOpGraph(handle, context, workspace, job.buffers, job.count); /* to the end by a signal */
  return 0;
}

int main(int count, char** args) {
  static const struct { const char* name; int (*body)(char**); int arguments; } scenarios[] = {
      {"run", run, 4}, {"threads", threads, 5}, {"exit", leave, 4}, {"storm", storm, 0}, {"reload", reload, 1},
      {"start", start, 0}, {"errors", errors, 3}, {"serialized", serialized, 4}, {"restore", restore, 2},
      {"fork", forked, 0}, {"fuzz", fuzz, 3}, {"crash", crash, 3}, {"overrides", overrides, 4}, {"shapes", shapes, 4},
      {"embed", embed, 3}, {"signals", signals, 4}, {"in_place", in_place, 6}, {"stack", on_stack, 4},
  };
  if (count < 4) return 2;
  library_path = args[1];
  library_flags = RTLD_NOW | RTLD_LOCAL | (strcmp(args[2], "deepbind") ? 0 : RTLD_DEEPBIND);
  for (size_t k = 0; k < sizeof scenarios / sizeof *scenarios; ++k)
    if (!strcmp(args[3], scenarios[k].name) && count - 4 == scenarios[k].arguments) return scenarios[k].body(args + 4);
  fprintf(stderr, "host: no scenario %s with %d arguments\n", args[3], count - 4);
  return 2;
}
