// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* The process that executes kernels (../worker.py): requests to it, and its answers.
 *
 * Nothing here needs Python in this process: IREE launches kernels from threads of its own while
 * the thread that waits for them may hold Python's lock.  One request is under way at a time.
 * hip.c includes this file; all numbers are little-endian.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOAD = 1, FIND, LAUNCH, UNLOAD, EXECUTED };
enum { END_MS = 200 }; /* what a process that closes its end is given until it can be asked why */

struct request {
  uint32_t kind, device;
  uint64_t handle;       /* module or function */
  uint32_t geometry[8];  /* of a launch: grid, block, bytes of LDS */
  uint64_t arguments, blocks, bytes; /* of the arguments; how many blocks of memory; all that follows */
};
struct answer {
  int32_t status;
  uint32_t unused;
  uint64_t handle, value, bytes;
};
struct part { const void *data; size_t size; };

static pthread_mutex_t talking = PTHREAD_MUTEX_INITIALIZER;
static int channel = -1, started, broken;
static pid_t worker;
static char ending[128]; /* how the worker has ended */

static int transfer(void *data, size_t size, int out) {
  for (char *at = data; size;) {
    ssize_t done = out ? send(channel, at, size, MSG_NOSIGNAL) : recv(channel, at, size, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return 0;
    at += done, size -= (size_t)done;
  }
  return 1;
}

/* Note how the worker has ended; the caller holds `talking`. */
static void lose(void) {
  siginfo_t how = {0};
  broken = 1;
  shutdown(channel, SHUT_RDWR);
  for (int ms = 0; ms < END_MS && !how.si_pid; ms++) {
    /* Who has started it takes its status. */
    if (waitid(P_PID, (id_t)worker, &how, WEXITED | WNOHANG | WNOWAIT)) break;
    if (!how.si_pid) usleep(1000);
  }
  const char *what = !how.si_pid ? "" : how.si_code == CLD_EXITED ? " with status" : " by signal";
  snprintf(ending, sizeof ending, "the process that executes kernels has ended%s", what);
  if (how.si_pid) snprintf(ending + strlen(ending), 16, " %d", how.si_status);
}

/* Send a request, and return its status; the caller frees what is found, which ends with a 0. */
static int ask(struct request request, const struct part *parts, int number, struct answer *answer, char **found) {
  char why[sizeof ending];
  int done = 0;
  *found = NULL;
  for (int i = 0; i < number; i++) request.bytes += parts[i].size;
  pthread_mutex_lock(&talking);
  if (!broken) {
    done = transfer(&request, sizeof request, 1);
    for (int i = 0; done && i < number; i++) done = transfer((void *)parts[i].data, parts[i].size, 1);
    done = done && transfer(answer, sizeof *answer, 0);
    if (done && (*found = malloc(answer->bytes + 1))) {
      done = transfer(*found, answer->bytes, 0);
      (*found)[answer->bytes] = 0;
    }
    if (!done || !*found) lose(); /* an answer without room for it is the end too: the rest would stay */
  }
  memcpy(why, ending, sizeof why);
  pthread_mutex_unlock(&talking);
  if (!done || !*found) {
    free(*found);
    *found = NULL;
    return fail(LAUNCH_FAILURE, "%s", why);
  }
  if (!answer->status) return SUCCESS;
  fail(answer->status, "%s", *found);
  free(*found);
  *found = NULL;
  return answer->status;
}

/* Have kernels executed by this process, at the other end of the socket, which is ours from now on. */
API void emulated_start(int socket, int process) {
  pthread_mutex_lock(&talking);
  if (channel >= 0) close(channel);
  channel = socket, worker = process;
  broken = 0, started = 1;
  pthread_mutex_unlock(&talking);
}

/* Execute nothing any more; a launch that runs fails. */
API void emulated_stop(void) {
  started = 0;
  if (channel >= 0) shutdown(channel, SHUT_RDWR);
}

/* Bytes of an ELF file, by its own header. */
static int elf_bytes(const void *image, size_t *size) {
  static const size_t LARGEST = (size_t)1 << 30; /* what an altered header says is not read */
  unsigned char head[64];
  uint64_t sections;
  uint16_t each, number;
  memcpy(head, image, sizeof head);
  if (memcmp(head, "\177ELF\2", 5))
    return fail(INVALID_IMAGE, "no 64-bit ELF file: it begins with the bytes %02x %02x %02x %02x %02x", head[0],
                head[1], head[2], head[3], head[4]);
  memcpy(&sections, head + 40, 8), memcpy(&each, head + 58, 2), memcpy(&number, head + 60, 2);
  if (sections > LARGEST || sections + (uint64_t)each * number > LARGEST)
    return fail(INVALID_IMAGE, "an ELF file whose header speaks of more than %zu bytes", LARGEST);
  *size = sections + (size_t)each * number;
  return SUCCESS;
}

struct argument { uint32_t offset, size; };
struct function {
  uint64_t handle, shared_bytes;
  char *name;
  uint32_t bytes, number; /* of the arguments */
  struct argument arguments[];
};

/* Place a launch's arguments as the kernel reads them; those that the runtime fills in are the worker's. */
static int pack(const struct function *function, void **given, void **extra, char *packed) {
  if (!extra) {
    if (function->number && !given)
      return fail(INVALID_VALUE, "%s takes %u arguments, got none", function->name, function->number);
    for (uint32_t i = 0; i < function->number; i++)
      memcpy(packed + function->arguments[i].offset, given[i], function->arguments[i].size);
    return SUCCESS;
  }
  void *buffer = NULL, *size = NULL; /* HIP_LAUNCH_PARAM_BUFFER_POINTER, ..._SIZE, ..._END */
  for (int i = 0; i < 8 && extra[i] && extra[i] != (void *)3; i += 2) {
    if (extra[i] == (void *)1) buffer = extra[i + 1];
    if (extra[i] == (void *)2) size = extra[i + 1];
  }
  if (!buffer || !size) return fail(INVALID_VALUE, "a launch's extra arguments name no buffer and size");
  if (*(size_t *)size > function->bytes)
    return fail(INVALID_VALUE, "%s takes %u bytes of arguments, got %zu", function->name, function->bytes,
                *(size_t *)size);
  memcpy(packed, buffer, *(size_t *)size);
  return SUCCESS;
}
