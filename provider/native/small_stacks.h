// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Calls of threads whose stack has too little left for Python: they happen on a thread of ours.
 *
 * Included by a library's source after `python_host.h`.
 */
#ifndef SMALL_STACKS_H
#define SMALL_STACKS_H

#include <semaphore.h>

#define KIB ((size_t)1024)
#define PLAN_STACK (2048 * KIB) /* what a call needs; imports of C++ and Python's parser take most */
#define EXECUTE_STACK (256 * KIB) /* of it 128 at most for a kernel (--iree-llvmcpu-stack-allocation-limit) */
#define OWN_STACK (16384 * KIB)

/* What is called on a thread of ours for one whose stack has too little left. */
struct task {
  object** function;
  const char *name, *format;
  va_list values; /* on the stack of the caller, which waits */
  char* error;
  int status;
};

struct companion { sem_t asked, answered; struct task* task; pid_t process; };

static void perform(struct task* it) {
  it->status = enter();
  if (!it->status && it->function) { /* else Python is only started */
    int held = py.Ensure();
    object* values = py.VaBuildValue(it->format, it->values);
    it->status = answer(values ? py.CallObject(*it->function, values) : NULL, it->name);
    if (values) py.DecRef(values);
    py.Release(held);
  }
  if (it->status) memcpy(it->error, last_error, sizeof last_error);
}

static void* accompany(void* of) {
  struct companion* it = of;
  for (;;) {
    while (sem_wait(&it->asked)) {}
    if (!it->task) break;
    perform(it->task);
    sem_post(&it->answered);
  }
  free(it);
  return NULL;
}

static void dismiss(void* of) { /* its thread has ended */
  struct companion* it = of;
  it->task = NULL;
  sem_post(&it->asked);
}

/* Return the companion of this thread: it has none of its signals, and ends with it. */
static struct companion* own_companion(void) {
  static _Thread_local struct companion* own;
  if (own && own->process == getpid()) return own; /* the child of a fork has none */
  pthread_t thread;
  pthread_attr_t about;
  sigset_t all, before;
  struct companion* made = calloc(1, sizeof *made);
  if (!made || pthread_attr_init(&about)) return free(made), NULL;
  made->process = getpid();
  sem_init(&made->asked, 0, 0), sem_init(&made->answered, 0, 0);
  pthread_attr_setdetachstate(&about, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  for (size_t k = 0; k < sizeof faults / sizeof *faults; ++k) sigdelset(&all, faults[k]);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int failed = pthread_attr_setstacksize(&about, OWN_STACK) || pthread_create(&thread, &about, accompany, made);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&about);
  if (failed) return free(made), NULL;
  __cxa_thread_atexit_impl(dismiss, made, &__dso_handle);
  return own = made;
}

/* Whether this thread's stack has so many bytes left; false on a stack that is not the thread's. */
static inline int roomy(size_t need) {
  static _Thread_local uintptr_t lowest, size;
  if (__builtin_expect(!size, 0)) {
    pthread_attr_t about;
    void* from = NULL;
    size_t bytes = 0;
    if (!pthread_getattr_np(pthread_self(), &about)) {
      pthread_attr_getstack(&about, &from, &bytes);
      pthread_attr_destroy(&about);
    }
    lowest = (uintptr_t)from, size = bytes ? bytes : 1;
  }
  uintptr_t left = (uintptr_t)__builtin_frame_address(0) - lowest;
  return left >= need && left < size;
}

static __attribute__((noinline)) int elsewhere(object** function, const char* name, const char* format, ...) {
  struct companion* own = own_companion();
  if (!own)
    return fail(ALLOC_FAILED, "the stack of this thread is too small, and there is no memory for one of %zu KiB", OWN_STACK / KIB);
  struct task task = {.function = function, .name = name, .format = format, .error = last_error};
  /* A caller may hold the GIL, as Python does for functions of ctypes.PyDLL. */
  int (*holds)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
  int (*alive)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  void* (*save)(void) = (void* (*)(void))dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
  void (*restore)(void*) = (void (*)(void*))dlsym(RTLD_DEFAULT, "PyEval_RestoreThread");
  void* released = holds && alive && save && restore && alive() && holds() ? save() : NULL;
  va_start(task.values, format);
  own->task = &task;
  sem_post(&own->asked);
  while (sem_wait(&own->answered)) {}
  va_end(task.values);
  if (released) restore(released);
  return task.status;
}

#endif
