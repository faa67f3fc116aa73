// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* A library in C whose functions are Python: finding or starting the interpreter, and its end.
 *
 * It is included by the one source file of a library, which defines before:
 *   LIBRARY_VERSION  the package's version, which a build passes
 *   ENTRY            the module whose `fill` puts Python functions into the table
 *   LIBRARY          what messages call the library
 *   INSTALL          the command that installs it again, but for the folder
 *   LOGGER           Python's logger for it
 *   enum status      with SUCCESS (0), INTERNAL_ERROR, ALLOC_FAILED, and LAST: the greatest that
 *                    Python may answer
 * and after it `table`, whose first members are HOST_FIELDS and whose initialiser begins with
 * HOST_VALUES; `host` points to it.
 *
 * No Python header is used and libpython is not linked, so that one binary serves CPython 3.11 to
 * 3.13, hosts with and without Python, and hosts that load it with local or deep binding.  The
 * interpreter is found, or started, at the first call that needs it (`enter`).
 * Whatever goes wrong on the way to Python, a call answers an error status and leaves a text.
 */
#ifndef HIPDNN_IREE_PYTHON_HOST_H
#define HIPDNN_IREE_PYTHON_HOST_H
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define OLDEST 11 /* minor version of Python 3 */
#define EXIT_WAIT_MS 2000 /* what running calls are given when the process ends */
#define API __attribute__((visibility("default")))

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "."
#endif

/* gettid is a function of glibc from 2.30 on. */
static pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

enum severity { INFO, WARN, ERROR, FATAL, OFF };

/* ------------------------------------------------------------------ error text of each thread */

static _Thread_local char last_error[2048]; /* hipDNN's limit, with the NUL */

/* Remove a UTF-8 character at the end that was cut in the middle. */
static void whole_characters(char* text, size_t length) {
  size_t start = length;
  while (start && ((unsigned char)text[start - 1] & 0xC0) == 0x80) --start;
  if (!start) return;
  unsigned char lead = (unsigned char)text[--start];
  size_t wants = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (start + wants > length) text[start] = 0;
}

/* Store a text that is too long without its middle: what is wrong stands at its start or its end. */
static void keep_both_ends(const char* whole, size_t length) {
  static const char gap[] = " ... ";
  size_t start = sizeof last_error / 2, end = sizeof last_error - 1 - start - strlen(gap);
  const char* tail = whole + length - end;
  while (((unsigned char)*tail & 0xC0) == 0x80) ++tail; /* from the first whole character on */
  memcpy(last_error, whole, start);
  last_error[start] = 0;
  whole_characters(last_error, start);
  strcat(strcat(last_error, gap), tail);
}

static int fail(int status, const char* format, ...) __attribute__((format(printf, 2, 3)));
static int fail(int status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  int length = vsnprintf(last_error, sizeof last_error, format, values);
  va_end(values);
  if (length < (int)sizeof last_error) return status;
  whole_characters(last_error, sizeof last_error - 1);
  char* whole = malloc((size_t)length + 1);
  if (!whole) return status;
  va_start(values, format);
  vsnprintf(whole, (size_t)length + 1, format, values);
  va_end(values);
  keep_both_ends(whole, (size_t)length);
  free(whole);
  return status;
}

/* What is wrong with a deployment, in the words of causes.h. */
#define CAUSE(name, id, what, remedy) name,
enum cause {
#include "causes.h"
};
#undef CAUSE
#define CAUSE(name, id, what, remedy) {id, what, remedy},
static const struct { const char *id, *what, *remedy; } causes[] = {
#include "causes.h"
};
#undef CAUSE

static int broken(enum cause cause, const char* format, ...) __attribute__((format(printf, 2, 3)));
static int broken(enum cause cause, const char* format, ...) {
  char found[sizeof last_error / 2];
  va_list values;
  va_start(values, format);
  vsnprintf(found, sizeof found, format, values);
  va_end(values);
  return fail(INTERNAL_ERROR, "%s: %s: %s; %s", causes[cause].id, causes[cause].what, found, causes[cause].remedy);
}

/* For Python, which calls it on the thread of the entry point. */
static void set_error(const char* text) { fail(0, "%s", text); }

/* ------------------------------------------------------------------ log */

typedef void (*log_sink)(int severity, const char* message);
enum { COLD, READY, LEAVING, GONE, FORKED };
static atomic_int state = COLD; /* of the interpreter */
static atomic_int leaver;       /* the thread that ends the process, the only one that may call then */
static atomic_int inflight;     /* calls inside this library */

static _Atomic(log_sink) sink;
static atomic_int wanted_level = -1; /* -1: the host has not said; its variable decides then */

static int log_level(void) {
  static const char* const names[] = {"info", "warn", "error", "fatal", "off"};
  int level = atomic_load_explicit(&wanted_level, memory_order_relaxed);
  if (level >= 0) return level;
  const char* text = getenv("HIPDNN_LOG_LEVEL");
  for (int k = INFO; text && k <= OFF; ++k)
    if (!strcasecmp(text, names[k])) return k;
  return OFF;
}

/* ------------------------------------------------------------------ CPython, by its stable names */

typedef struct object object;
struct method { /* PyMethodDef, whose layout is part of the stable ABI */
  const char* name;
  object* (*body)(object* self, object* arguments);
  int flags;
  const char* text;
};
enum { NO_ARGUMENTS = 4 };
static struct {
  int (*IsInitialized)(void);
  const char* (*GetVersion)(void);
  wchar_t* (*DecodeLocale)(const char*, size_t*);
  void (*SetProgramName)(const wchar_t*);
  void (*InitializeEx)(int);
  void* (*SaveThread)(void);
  void (*RestoreThread)(void*);
  int (*Ensure)(void);
  void (*Release)(int);
  void* (*ThisThreadState)(void);
  int (*IsFinalizing)(void);
  object* (*NewFunction)(struct method*, object* self, object* module);
  object* (*FromBool)(long);
  object* (*ImportModule)(const char*);
  object* (*CallMethod)(object*, const char*, const char*, ...);
  object* (*CallFunction)(object*, const char*, ...);
  object* (*CallObject)(object*, object*);
  object* (*VaBuildValue)(const char*, va_list);
  object* (*CallObjects)(object*, ...);
  object* (*NewTuple)(ssize_t);
  int (*SetItem)(object*, ssize_t, object*);
  object* (*FromSsize)(ssize_t);
  long (*AsLong)(object*);
  void (*ErrFetch)(object**, object**, object**);
  void (*ErrRestore)(object*, object*, object*);
  void (*ErrClear)(void);
  int (*ErrMatches)(object*);
  const char* (*ClassName)(object*);
  int (*AddPendingCall)(int (*)(void*), void*);
  int (*SetAsyncExc)(unsigned long, object*);
  unsigned long (*ThreadId)(void);
  object **Exception, **ImportError;
  object* (*Str)(object*);
  const char* (*AsUTF8)(object*, ssize_t*);
  void (*DecRef)(object*);
} py;

/* Resolve everything from a library that has been opened; returns the name that is missing. */
static const char* resolve(void* library) {
  const struct { void** slot; const char* name; } names[] = {
      {(void**)&py.IsInitialized, "Py_IsInitialized"}, {(void**)&py.GetVersion, "Py_GetVersion"},
      {(void**)&py.DecodeLocale, "Py_DecodeLocale"}, {(void**)&py.SetProgramName, "Py_SetProgramName"},
      {(void**)&py.InitializeEx, "Py_InitializeEx"}, {(void**)&py.SaveThread, "PyEval_SaveThread"},
      {(void**)&py.RestoreThread, "PyEval_RestoreThread"}, {(void**)&py.NewFunction, "PyCFunction_NewEx"},
      {(void**)&py.FromBool, "PyBool_FromLong"},
      {(void**)&py.Ensure, "PyGILState_Ensure"}, {(void**)&py.Release, "PyGILState_Release"},
      {(void**)&py.ThisThreadState, "PyGILState_GetThisThreadState"},
      {(void**)&py.ImportModule, "PyImport_ImportModule"}, {(void**)&py.CallMethod, "PyObject_CallMethod"},
      {(void**)&py.CallFunction, "PyObject_CallFunction"}, {(void**)&py.CallObject, "PyObject_CallObject"},
      {(void**)&py.VaBuildValue, "Py_VaBuildValue"}, {(void**)&py.AsLong, "PyLong_AsLong"},
      {(void**)&py.ErrFetch, "PyErr_Fetch"}, {(void**)&py.ErrRestore, "PyErr_Restore"},
      {(void**)&py.ErrClear, "PyErr_Clear"}, {(void**)&py.ErrMatches, "PyErr_ExceptionMatches"},
      {(void**)&py.AddPendingCall, "Py_AddPendingCall"}, {(void**)&py.SetAsyncExc, "PyThreadState_SetAsyncExc"},
      {(void**)&py.ThreadId, "PyThread_get_thread_ident"}, {(void**)&py.Exception, "PyExc_Exception"},
      {(void**)&py.ImportError, "PyExc_ImportError"},
      {(void**)&py.CallObjects, "PyObject_CallFunctionObjArgs"}, {(void**)&py.NewTuple, "PyTuple_New"},
      {(void**)&py.SetItem, "PyTuple_SetItem"}, {(void**)&py.FromSsize, "PyLong_FromSsize_t"},
      {(void**)&py.Str, "PyObject_Str"}, {(void**)&py.AsUTF8, "PyUnicode_AsUTF8AndSize"},
      {(void**)&py.ClassName, "PyExceptionClass_Name"}, {(void**)&py.DecRef, "Py_DecRef"},
  };
  for (size_t k = 0; k < sizeof names / sizeof *names; ++k)
    if (!(*names[k].slot = dlsym(library, names[k].name))) return names[k].name;
  *(void**)&py.IsFinalizing = dlsym(library, "Py_IsFinalizing"); /* since 3.13 */
  if (!py.IsFinalizing) *(void**)&py.IsFinalizing = dlsym(library, "_Py_IsFinalizing");
  return NULL;
}

/* Whether the Python of this process is ending or has ended; nobody may use or start it then. */
static int ended(void) { return py.IsFinalizing && py.IsFinalizing() && !py.IsInitialized(); }

static void emit(int severity, const char* text) {
  if (severity < INFO || severity > FATAL || severity < log_level()) return;
  atomic_fetch_add(&inflight, 1); /* so that the end of Python waits for the sink */
  if (atomic_load(&state) < GONE && !ended()) { /* what the sink needs may be gone as well */
    log_sink to = atomic_load(&sink);
    if (to) to(severity, text);
    else fprintf(stderr, "[hipdnn-iree] %s\n", text);
  }
  atomic_fetch_sub(&inflight, 1);
}

/* Log an error of this file in the form of the lines that come from Python (log.py). */
static void log_error(const char* text) {
  char line[sizeof last_error + 128], stamp[32] = "";
  struct timespec now = {0, 0};
  struct tm local;
  clock_gettime(CLOCK_REALTIME, &now);
  if (localtime_r(&now.tv_sec, &local)) strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
  snprintf(line, sizeof line, "%s.%03ld thread %d ERROR " LOGGER ": %s", stamp,
           now.tv_nsec / 1000000, (int)this_thread(), text);
  emit(ERROR, line);
}

/* ------------------------------------------------------------------ which Python it belongs to */

static struct {
  char library[PATH_MAX]; /* this file */
  char python[PATH_MAX];  /* executable, also that of a virtual environment */
  char version[16];       /* "3.11" */
  char path[PATH_MAX];    /* folder that holds the package hipdnn_iree */
  int record, read;       /* whether there is a record beside the library, and whether it was read */
  int chosen;             /* whether HIPDNN_IREE_PYTHON names `python` */
} home;

static int put(char* out, size_t size, const char* format, ...) __attribute__((format(printf, 3, 4)));
static int put(char* out, size_t size, const char* format, ...) {
  va_list values;
  va_start(values, format);
  int length = vsnprintf(out, size, format, values);
  va_end(values);
  if (length >= 0 && (size_t)length < size) return 1;
  *out = 0;
  return 0;
}

static void parent(char* path) {
  char* slash = strrchr(path, '/');
  if (slash) *slash = 0;
}

static const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Copy "3.11" from the front of a text such as "3.11.7". */
static int minor_version(const char* text, char out[16]) {
  int major, minor;
  if (sscanf(text, "%d.%d", &major, &minor) != 2) return 0;
  return put(out, 16, "%d.%d", major, minor);
}

/* Open a file, which never waits, as for the other end of a pipe.  With `beside` it has to belong to
 * the user, to root, or to the owner of that file, and nobody else may write it. */
static FILE* open_file(const char* file, const char* beside) {
  int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  struct stat about, other;
  if (fd < 0) return NULL;
  int good = !fstat(fd, &about) && S_ISREG(about.st_mode);
  if (good && beside)
    good = !(about.st_mode & S_IWOTH) && (!about.st_uid || about.st_uid == geteuid() ||
                                          (!stat(beside, &other) && about.st_uid == other.st_uid));
  FILE* stream = good ? fdopen(fd, "r") : NULL;
  if (!stream) close(fd);
  return stream;
}

/* Call `each` with every "key = value" line of a file; false if there is none (see open_file). */
static int read_pairs(const char* file, const char* beside,
                      void (*each)(const char* key, const char* value, void* to), void* to) {
  FILE* stream = open_file(file, beside);
  char line[PATH_MAX + 64];
  if (!stream) return 0;
  while (fgets(line, sizeof line, stream)) {
    char *equals = strchr(line, '='), *end = equals, *value;
    if (!equals) continue;
    while (end > line && strchr(" \t", end[-1])) --end;
    value = equals + 1 + strspn(equals + 1, " \t");
    value[strcspn(value, "\r\n")] = 0;
    *end = 0;
    each(line + strspn(line, " \t"), value, to);
  }
  fclose(stream);
  return 1;
}

static void record_pair(const char* key, const char* value, void* to) {
  (void)to;
  if (!strcmp(key, "python")) put(home.python, sizeof home.python, "%s", value);
  if (!strcmp(key, "version")) minor_version(value, home.version);
  if (!strcmp(key, "path")) put(home.path, sizeof home.path, "%s", value);
}

static void locate(void) {
  Dl_info about;
  char text[PATH_MAX + 16];
  if (!dladdr((void*)locate, &about) || !realpath(about.dli_fname, home.library)) return;
  if (put(text, sizeof text, "%s.python", home.library)) {
    home.record = !access(text, F_OK);
    home.read = read_pairs(text, home.library, record_pair, NULL);
    if (home.read) return;
  }
  /* An installed one: PREFIX/lib/python3.11/site-packages/hipdnn_iree/... */
  put(text, sizeof text, "%s", home.library);
  while (strchr(text, '/')) {
    parent(text);
    const char* name = base_name(text);
    if (strcmp(name, "site-packages") && strcmp(name, "dist-packages")) continue;
    put(home.path, sizeof home.path, "%s", text);
    parent(text);
    if (strncmp(base_name(text), "python", 6) || !minor_version(base_name(text) + 6, home.version)) return;
    parent(text); /* lib */
    parent(text); /* prefix */
    const char* const prefixes[] = {text, "/usr", NULL}; /* /usr: Debian's /usr/local/lib/.../dist-packages */
    for (int k = 0; prefixes[k]; ++k) {
      if (put(home.python, sizeof home.python, "%s/bin/python%s", prefixes[k], home.version) &&
          !access(home.python, X_OK)) return;
      if (!k && put(home.python, sizeof home.python, "%s/bin/python3", text) && !access(home.python, X_OK))
        return;
    }
    *home.python = 0;
    return;
  }
}

struct environment { char home[PATH_MAX]; char version[16]; };

static void environment_pair(const char* key, const char* value, void* to) {
  struct environment* out = to;
  if (!strcmp(key, "home")) put(out->home, sizeof out->home, "%s", value);
  if (!strncmp(key, "version", 7)) minor_version(value, out->version);
}

/* Where the standard library and libpython of home.python are. */
static int installation(char base[PATH_MAX]) {
  char text[PATH_MAX + 32];
  struct environment venv = {.home = ""};
  put(text, sizeof text, "%s", home.python);
  parent(text);
  parent(text);
  strncat(text, "/pyvenv.cfg", sizeof text - strlen(text) - 1);
  if (read_pairs(text, NULL, environment_pair, &venv) && *venv.home) {
    put(base, PATH_MAX, "%s", venv.home);
    if (*venv.version) strcpy(home.version, venv.version);
  } else {
    char real[PATH_MAX];
    if (!realpath(home.python, real))
      return broken(home.chosen ? PYTHON_VARIABLE : NO_PYTHON, "%s, of %s", home.python, home.library);
    if (!strncmp(base_name(real), "python", 6)) minor_version(base_name(real) + 6, home.version);
    put(base, PATH_MAX, "%s", real);
    parent(base);
  }
  parent(base); /* from .../bin */
  enum cause cause = home.chosen ? PYTHON_VARIABLE : NOT_PYTHON;
  if (!*home.version) return broken(cause, "cannot tell the version of %s", home.python);
  /* Py_InitializeEx would end the process without it. */
  if (!put(text, sizeof text, "%s/lib/python%s/encodings/__init__.py", base, home.version) || access(text, R_OK))
    return broken(cause, "%s has no standard library at %s", home.python, text);
  int minor = 0;
  if (sscanf(home.version, "3.%d", &minor) != 1 || minor < OLDEST)
    return broken(cause, "%s is Python %s; hipdnn-iree needs 3.%d or newer", home.python, home.version, OLDEST);
  return SUCCESS;
}

static int open_libpython(const char* file, char why[512]) {
  struct stat about;
  if (strchr(file, '/') && !stat(file, &about) && !S_ISREG(about.st_mode)) {
    put(why, 512, "%.300s is no file", file); /* dlopen would wait for the writer of a FIFO */
    return 0;
  }
  void* library = dlopen(file, RTLD_NOW | RTLD_GLOBAL); /* extension modules look it up globally */
  if (!library) {
    const char* text = dlerror();
    put(why, 512, "%.500s", text ? text : "it does not open");
    return 0;
  }
  const char* missing = resolve(library);
  if (missing) put(why, 512, "%.300s has no %s", file, missing);
  return !missing;
}

static int mapped(struct dl_phdr_info* info, size_t size, void* out) {
  (void)size;
  const char* name = base_name(info->dlpi_name);
  if (strncmp(name, "libpython3.", 11) || !strcmp(name, "libpython3.so")) return 0;
  put(out, PATH_MAX, "%s", info->dlpi_name);
  return 1;
}

/* Find the interpreter of this process, else that of the library, and fill `py`. */
static int find_python(void) {
  char file[2 * PATH_MAX] = "", base[PATH_MAX] = "", why[512] = "";
  const char* given;
  locate();
  void* program = dlopen(NULL, RTLD_LAZY);
  if (program && dlsym(program, "Py_IsInitialized")) {
    const char* missing = resolve(program);
    return missing ? broken(PROCESS_PYTHON, "it has no %s", missing) : SUCCESS;
  }
  dl_iterate_phdr(mapped, file); /* opened privately by another library */
  if (*file) {
    if (open_libpython(file, why)) return SUCCESS;
    return broken(PROCESS_PYTHON, "%s", why);
  }
  given = getenv("HIPDNN_IREE_PYTHON");
  if (given && *given) {
    if (!put(home.python, sizeof home.python, "%s", given) || access(home.python, X_OK))
      return broken(PYTHON_VARIABLE, "there is no executable at %s", given);
    *home.version = 0;
    home.chosen = 1;
  }
  if (!*home.python && home.read) return broken(DAMAGED_RECORD, "%s.python", home.library);
  if (!*home.python && home.record)
    return broken(UNSAFE_RECORD, "%s.python is no file that user %d may read, or others may write it", home.library,
                  (int)geteuid());
  if (!*home.python) return broken(NO_RECORD, "%s is in no site-packages and has no record beside it", home.library);
  int status = installation(base);
  if (status) return status;
  given = getenv("HIPDNN_IREE_LIBPYTHON");
  if (given && *given) {
    if (!open_libpython(given, why)) return broken(LIBPYTHON_VARIABLE, "%s", why);
    char version[16] = "";
    minor_version(py.GetVersion(), version);
    if (!strcmp(version, home.version)) return SUCCESS; /* else it would end the process when it starts */
    return broken(LIBPYTHON_VARIABLE, "%s is of Python %s, and %s of %s", given, version, home.python, home.version);
  }
  static const char* const places[] = {"lib", "lib/" MULTIARCH, "lib64", NULL};
  for (int k = 0; places[k]; ++k)
    if (put(file, sizeof file, "%s/%s/libpython%s.so.1.0", base, places[k], home.version) && !access(file, R_OK)
        && open_libpython(file, why)) return SUCCESS;
  put(file, sizeof file, "libpython%s.so.1.0", home.version);
  if (open_libpython(file, why)) return SUCCESS;
  return broken(NO_LIBPYTHON, "libpython%s.so.1.0 for %s%s: %s", home.version,
                home.chosen ? "HIPDNN_IREE_PYTHON=" : "", home.python, why);
}

/* ------------------------------------------------------------------ the table that Python fills */

#define HOST_FIELDS \
  uint32_t version; \
  uint32_t size; \
  int32_t owner;       /* whether the interpreter was started here */ \
  int32_t started;     /* set by Python when the functions are in place */ \
  const char* package; /* version of the package that this library was built with */ \
  const char* library; /* its file */ \
  void (*set_error)(const char* text); \
  void (*emit)(int severity, const char* text); \
  int (*log_level)(void); \
  void (*exit_early)(void); \
  /* From here on filled by Python. */ \
  object* shutdown; \
  object* set_level;
#define HOST_VALUES \
  .version = TABLE_VERSION, .size = sizeof(struct table), .package = LIBRARY_VERSION, .library = home.library, \
  .set_error = set_error, .emit = emit, .log_level = log_level, .exit_early = exit_early

struct host { HOST_FIELDS };
static struct host* const host; /* the head of the library's table */
static void exit_early(void);

/* ------------------------------------------------------------------ start and end */

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

/* Refuse new calls and give the running ones, and those that start Python, time to end. */
static void end(int now) {
  atomic_store(&state, now);
  for (int k = 0; k < EXIT_WAIT_MS && atomic_load(&inflight) > 0; ++k) usleep(1000);
}

/* What Python's atexit calls: before Python takes anything down it waits for calls to end, which
 * may want the GIL.  Afterwards Python would end the threads that want it, in the middle of C. */
static object* guard(object* self, object* arguments) {
  (void)self, (void)arguments;
  void* thread = py.SaveThread();
  end(GONE);
  py.RestoreThread(thread);
  return py.FromBool(1);
}

static void run(object* function, const char* format, int value);

/* Python's exit functions wait longer for what is in C++, end compilers, and stop what comes. */
static void shut_down(void) {
  if (host->started && py.IsInitialized()) run(host->shutdown, NULL, 0);
}

static void at_exit(void) {
  int now = atomic_load(&state);
  if (now >= GONE) return;
  end(GONE); /* also while another thread is starting Python */
  shut_down();
}

/* Before the first of all exit functions and destructors, those of libraries in use among them, no
 * other thread is in here.  What the host has registered may still call, on the thread of its end. */
static void leave(void) {
  if (atomic_load(&state) >= LEAVING || (!host->owner && !atomic_load(&inflight))) return;
  atomic_store(&leaver, this_thread());
  end(LEAVING);
  if (atomic_load(&inflight)) shut_down();
}

/* Libraries register destructors at any time, such as those of variables that are made at their
 * first use.  Variables of the main thread go before all of them, and registered from here `leave`
 * is the last of the exit functions, so that it runs first. */
static void main_ends(void* unused) {
  (void)unused;
  if (host->owner) atexit(leave);
}

extern int __cxa_thread_atexit_impl(void (*)(void*), void*, void*);
extern void* __dso_handle __attribute__((visibility("hidden")));

static __attribute__((constructor)) void watch_main(void) {
  static atomic_int watched;
  if (getpid() == this_thread() && !atomic_exchange(&watched, 1)) __cxa_thread_atexit_impl(main_ends, NULL, &__dso_handle);
}

static int additions(struct dl_phdr_info* info, size_t size, void* out) {
  (void)size;
  *(unsigned long long*)out = info->dlpi_adds;
  return 1;
}

/* Exit functions and static destructors run in reverse order of registration: called whenever
 * libraries were loaded, this makes at_exit run before theirs, while they can still be used. */
static void exit_early(void) {
  static _Atomic unsigned long long seen;
  unsigned long long now = 0;
  dl_iterate_phdr(additions, &now);
  if (host->owner && atomic_exchange(&seen, now) != now) atexit(at_exit);
}

/* The child of a fork has none of the threads, whatever they held: the GIL, locks, a part of an
 * import.  One that was forked before the first call can start Python itself. */
static void in_child(void) {
  int was = atomic_load(&state);
  if (was == READY || was == LEAVING || (was == COLD && (host->owner || atomic_load(&inflight) > 0))) atomic_store(&state, FORKED);
  atomic_store(&inflight, 0);
  pthread_mutex_init(&starting, NULL);
}

static const char* const refusals[] = {
    [LEAVING] = "Python has ended in this process, which is ending itself",
    [GONE] = "Python has ended in this process, and with it " LIBRARY,
    [FORKED] = "this process was forked from one that had started " LIBRARY "; start it with exec instead"};

/* What came from outside while Python ran for a call, such as KeyboardInterrupt. */
struct interrupt { object *kind, *value; };

static int raise_interrupt(void* of) {
  struct interrupt* it = of;
  py.ErrRestore(it->kind, it->value, NULL);
  free(it);
  return -1;
}

/* What is no Exception is meant for the host's program: where that is in Python, it gets it as soon
 * as the call has returned.  Takes over both references. */
static void hand_on(object* kind, object* value) {
  struct interrupt* it = getpid() == this_thread() ? malloc(sizeof *it) : NULL;
  if (it) { /* the main thread: with the value, such as an exit status */
    *it = (struct interrupt){kind, value};
    if (!py.AddPendingCall(raise_interrupt, it)) return;
    free(it);
  }
  if (value) py.DecRef(value);
  py.SetAsyncExc(py.ThreadId(), kind);
  py.DecRef(kind);
}

/* Answer for an exception, with its text; the caller holds the GIL. */
static int python_error(const char* what) {
  object *kind = NULL, *value = NULL, *trace = NULL;
  int foreign = !py.ErrMatches(*py.Exception);
  py.ErrFetch(&kind, &value, &trace);
  foreign = foreign && kind;
  object* text = value ? py.Str(value) : NULL;
  const char* shown = text ? py.AsUTF8(text, NULL) : NULL;
  if (foreign) what = py.ClassName(kind);
  fail(INTERNAL_ERROR, "%s: %s", what, shown && *shown ? shown : foreign ? "the call was interrupted" : "unknown error");
  py.ErrClear();
  if (text) py.DecRef(text);
  if (trace) py.DecRef(trace);
  if (foreign && !host->owner) { /* the last thing that happens in Python here */
    hand_on(kind, value);
    return INTERNAL_ERROR;
  }
  if (kind) py.DecRef(kind);
  if (value) py.DecRef(value);
  return INTERNAL_ERROR;
}

/* Call a function of the table that answers nothing. */
static void run(object* function, const char* format, int value) {
  int held = py.Ensure();
  object* result = py.CallFunction(function, format, value);
  if (result) py.DecRef(result);
  else python_error("a function of " LIBRARY);
  py.Release(held);
}

/* Until Python has looked whether somebody else has SIGINT; else the import of `signal` takes it. */
static atomic_int interrupted;
static void note_interrupt(int number) {
  (void)number;
  atomic_store(&interrupted, 1);
}

/* Start the interpreter as that of `home.python`, not as the host's environment would have it. */
static void initialise(void) {
  void* self = dlopen(NULL, RTLD_LAZY); /* by now libpython is in the global scope */
  static const char* const flags[] = {"Py_IgnoreEnvironmentFlag", "Py_NoUserSiteDirectory", NULL};
  for (int k = 0; flags[k]; ++k) {
    int* flag = self ? dlsym(self, flags[k]) : NULL;
    if (flag) *flag = 1; /* PYTHONHOME and PYTHONPATH are meant for another Python */
  }
  atexit(at_exit);
  char* locale = setlocale(LC_CTYPE, NULL);
  locale = locale ? strdup(locale) : NULL;
  if (*home.python) py.SetProgramName(py.DecodeLocale(home.python, NULL)); /* leads to pyvenv.cfg */
  struct sigaction now, ours = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
  unsigned char before[64]; /* as the kernel has it: glibc's would come back with another flag */
  int unset = !sigaction(SIGINT, NULL, &now) && now.sa_handler == SIG_DFL &&
              !syscall(SYS_rt_sigaction, SIGINT, NULL, before, 8) && !sigaction(SIGINT, &ours, NULL);
  host->owner = 1;
  py.InitializeEx(0); /* 0: the signal handlers stay the host's */
  object* module = py.ImportModule("_signal");
  if (module) py.DecRef(module);
  else py.ErrClear();
  /* Python is ours alone: imports make many objects that stay (8 % of the first result). */
  object* collector = py.ImportModule("gc");
  object* set = collector ? py.CallMethod(collector, "set_threshold", "iii", 50000, 20, 20) : NULL;
  if (set) py.DecRef(set);
  else py.ErrClear();
  if (collector) py.DecRef(collector);
  if (unset && !sigaction(SIGINT, NULL, &now) && now.sa_handler == note_interrupt)
    syscall(SYS_rt_sigaction, SIGINT, before, NULL, 8);
  if (atomic_load(&interrupted)) kill(getpid(), SIGINT); /* what came meanwhile is the host's */
  py.SaveThread();
  if (locale) setlocale(LC_CTYPE, locale);
  free(locale);
}

/* Register `guard`, once; the caller holds the GIL. */
static int register_guard(void) {
  static struct method about = {"hipdnn_iree_end", guard, NO_ARGUMENTS, NULL};
  static atomic_int registered;
  if (atomic_load(&registered)) return SUCCESS;
  object* function = py.NewFunction(&about, NULL, NULL);
  object* module = function ? py.ImportModule("atexit") : NULL;
  object* kept = module ? py.CallMethod(module, "register", "O", function) : NULL;
  int status = kept ? SUCCESS : python_error("cannot register with atexit");
  if (kept) py.DecRef(kept);
  if (module) py.DecRef(module);
  if (function) py.DecRef(function);
  if (!status) atomic_store(&registered, 1);
  return status;
}

/* Answer for an exception at the start: a cause that Python has found out itself stays as it is. */
static int not_started(enum cause cause) {
  int interrupted = !py.ErrMatches(*py.Exception);
  int status = python_error("");
  if (interrupted) return status;
  char text[sizeof last_error], version[32];
  put(text, sizeof text, "%s", last_error + strlen(": "));
  if (!strncmp(text, causes[0].id, strlen("DEPLOY-"))) return fail(status, "%s", text);
  snprintf(version, sizeof version, "%.31s", py.GetVersion());
  version[strcspn(version, " ")] = 0;
  return broken(cause, "Python %s of %s, with %s on its path: %s", version,
                host->owner ? home.python : "this process", *home.path ? home.path : "nothing", text);
}

/* Import ENTRY and let it fill the table; the caller holds the GIL. */
static int fill(void) {
  int minor = 0;
  if (sscanf(py.GetVersion(), "3.%d", &minor) != 1 || minor < OLDEST)
    return broken(PROCESS_PYTHON, "hipdnn-iree needs Python 3.%d or newer; this one is %s", OLDEST, py.GetVersion());
  int status = register_guard(); /* first, as an import may be long and Python end meanwhile */
  if (status) return status;
  object* module = py.ImportModule(ENTRY);
  if (!module && *home.path && py.ErrMatches(*py.ImportError)) { /* else it is there, or was interrupted */
    py.ErrClear();
    object* site = py.ImportModule("site");
    object* added = site ? py.CallMethod(site, "addsitedir", "s", home.path) : NULL;
    if (site) py.DecRef(site);
    if (added) py.DecRef(added);
    if (added || py.ErrMatches(*py.Exception)) {
      py.ErrClear();
      module = py.ImportModule(ENTRY);
    }
  }
  if (!module) return not_started(NO_PACKAGE);
  object* filled = py.CallMethod(module, "fill", "n", (ssize_t)(intptr_t)host);
  status = filled ? SUCCESS : not_started(NOT_STARTED);
  if (filled) py.DecRef(filled);
  py.DecRef(module);
  if (!status && !host->started) status = fail(INTERNAL_ERROR, ENTRY " did not start");
  return status;
}

/* Find Python and start it if nobody has; a Python that has ended is not started again. */
static int awaken(void) {
  static int found;
  int status = SUCCESS;
  if (!found) {
    status = find_python();
    if (status) return status;
    found = !pthread_atfork(NULL, NULL, in_child);
    if (!found) return fail(ALLOC_FAILED, "no memory to start Python");
  }
  if (py.IsInitialized()) return SUCCESS;
  if (ended()) return fail(INTERNAL_ERROR, "%s", refusals[GONE]);
  initialise();
  return SUCCESS;
}

/* Log an error of the start, which every call that needs Python meets again. */
static void log_once(const char* text) {
  static char told[sizeof last_error];
  pthread_mutex_lock(&starting);
  int fresh = strcmp(told, text);
  strcpy(told, text);
  pthread_mutex_unlock(&starting);
  if (fresh) log_error(text);
}

static __attribute__((noinline)) int start(void) {
  int status = SUCCESS, now;
  if (atomic_load(&state) == LEAVING && host->started && atomic_load(&leaver) == this_thread()) return SUCCESS;
  pthread_mutex_lock(&starting); /* nothing in here waits for the GIL */
  now = atomic_load(&state);
  if (now == COLD) status = awaken();
  pthread_mutex_unlock(&starting);
  if (now == COLD && !status) {
    if (!py.IsInitialized()) return fail(INTERNAL_ERROR, "%s", refusals[GONE]);
    int held = py.Ensure(); /* racing threads are ordered by Python's import lock */
    status = fill();
    if (!status && atomic_compare_exchange_strong(&state, &now, READY)) run(host->set_level, "i", log_level());
    py.Release(held);
    now = atomic_load(&state);
  }
  if (now >= LEAVING) return fail(INTERNAL_ERROR, "%s", refusals[now]);
  if (status) log_once(last_error);
  return status;
}

/* ------------------------------------------------------------------ threads of the host */

/* A thread that Python does not know gets one thread state, which it keeps until it ends.
 * Otherwise every call would make and free one: 7 us instead of 0.3. */
static _Thread_local int known;

static void forget_thread(void* unused) {
  (void)unused;
  atomic_fetch_add(&inflight, 1); /* so that the end of Python waits for it */
  if (atomic_load(&state) == READY && py.IsInitialized()) {
    int held = py.Ensure(); /* nested in the one that was kept */
    py.Release(0);          /* undoes the kept one, and goes on holding the GIL */
    py.Release(held);       /* the last one: frees the thread state */
  }
  atomic_fetch_sub(&inflight, 1);
}

static __attribute__((noinline)) void know_thread(void) {
  known = 1;
  watch_main();
  if (py.ThisThreadState()) return;
  py.Ensure(); /* never released, so that the state stays */
  py.SaveThread();
  __cxa_thread_atexit_impl(forget_thread, NULL, &__dso_handle);
}

static inline int enter(void) {
  /* In one order with `inflight`: either this sees that Python ends, or the end sees this call. */
  if (__builtin_expect(atomic_load(&state) != READY, 0)) {
    int status = start();
    if (status) return status;
  }
  if (__builtin_expect(!py.IsInitialized(), 0)) return fail(INTERNAL_ERROR, "%s", refusals[GONE]);
  if (__builtin_expect(!known, 0)) know_thread();
  return SUCCESS;
}

/* Return the status that Python has answered: without an answer a call has not succeeded. */
static inline int answer(object* result, const char* name) {
  if (!result) return python_error(name);
  long status = py.AsLong(result);
  py.DecRef(result);
  if ((unsigned long)status <= LAST) return (int)status;
  py.ErrClear();
  return fail(INTERNAL_ERROR, "%s gave the status %ld, which does not exist", name, status);
}

#endif
