// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Scenarios of start, end, threads and signals. */
#include "scenarios.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* exit GRAPH CONFIG JOB: main returns while threads execute.  A function that was registered during
 * that, as destructors of C++ are, runs when no other thread executes; its own may still call. */
static atomic_int destroyed, executing;
static void* kept;
static const char* job_file;

static void destruct(void) {
  usleep(100000); /* for threads that are on the way out of their last call */
  atomic_store(&destroyed, 1);
  int status = P.Destroy(kept);
  if (status && status != INTERNAL_ERROR) _exit(4); /* 3: other calls have not ended within the limit */
  usleep(100000);
}

static void* forever(void* unused) {
  (void)unused;
  void* handle = NULL;
  job_t job;
  read_job(job_file, &job);
  EXPECT(!P.Create(&handle));
  plan_t made = plan(handle);
  for (long k = 0; !execute(&made, &job); ++k) {
    if (!k) atomic_fetch_add(&executing, 1);
    if (atomic_load(&destroyed)) _exit(3);
  }
  while (1) usleep(1000); /* refused: the process is about to end */
}

static int leave(char** args) {
  load(-1);
  graph = slurp(args[0]), config = slurp(args[1]);
  job_file = args[2];
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
  void *handle = NULL, *context = NULL, *killed = NULL;
  EXPECT(!P.Create(&handle));
  pthread_t thread;
  atomic_store(&compiling, 1);
  pthread_create(&thread, NULL, killer, NULL);
  int status = P.CreateExecutionContext(handle, &config, &graph, &context);
  printf("status %d\nerror %.400s\n", status, status ? last_error() : "");
  atomic_store(&compiling, 0);
  pthread_join(thread, &killed);
  EXPECT(status == 3 && !context && killed);
  plan_t made = plan(handle);
  EXPECT(!execute(&made, &job));
  intact(&made, &job);
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
  void* handle = NULL;
  job_t job, right;
  read_job(args[2], &job);
  read_job(args[2], &right);
  EXPECT(!P.Create(&handle));
  plan_t made = plan(handle);
  EXPECT(!execute(&made, &right));
  long calls = 0, wrong = 0;
  atomic_store(&executing, 1);
  do {
    for (uint32_t b = 0; b < job.count; ++b)
      if (strcmp(job.out[b], "-")) memset(job.buffers[b].ptr, 0x5A, job.bytes[b]);
    EXPECT(!execute(&made, &job));
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
  while (!most) execute(&made, &job); /* to the end by a signal */
  return 0;
}

const scenario_t life_scenarios[] = {
    {"exit", leave, 4}, {"storm", storm, 0}, {"reload", reload, 1}, {"start", start, 0}, {"fork", forked, 0},
    {"embed", embed, 3}, {"crash", crash, 3}, {"signals", signals, 4}, {NULL, NULL, 0},
};
