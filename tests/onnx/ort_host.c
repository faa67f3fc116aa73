// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* A program without Python that runs a model by ONNX Runtime with the execution provider.
 *
 *   ort_host LIBONNXRUNTIME PROVIDER MODEL MODE [TIMES] [THREADS]
 *
 * The model takes x float[1,4] and gives y float[1,4] = relu(x).  MODE is `run`, or `fail`, where
 * registration has to be refused: its text is printed.  Functions are taken by index, as
 * docs/onnx.md says.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Status;
typedef struct { void* const* (*GetApi)(uint32_t); const char* (*GetVersionString)(void); } Base;
static void* const* api;

#define F(index, ...) ((Status(*)(__VA_ARGS__))api[index])

static void check(Status status, const char* what) {
  if (!status) return;
  printf("failed %s: %d %s\n", what, ((int (*)(Status))api[1])(status), ((const char* (*)(Status))api[2])(status));
  exit(1);
}

static void* session;
static int times = 1;

static void* work(void* unused) {
  (void)unused;
  for (int k = 0; k < times; ++k) {
    float x[4] = {-1, 2, -3, (float)k};
    int64_t dims[2] = {1, 4};
    void *info, *value, *out = NULL, *data;
    check(F(69, int, int, void**)(0, 0, &info), "memory info");
    check(F(49, void*, void*, size_t, const int64_t*, size_t, int, void**)(info, x, sizeof x, dims, 2, 1, &value), "tensor");
    const char *in[] = {"x"}, *outs[] = {"y"};
    check(F(9, void*, void*, const char**, void**, size_t, const char**, size_t, void**)(session, NULL, in, &value, 1, outs, 1, &out), "run");
    check(F(51, void*, void**)(out, &data), "data");
    float* y = data;
    if (y[0] != 0 || y[1] != 2 || y[2] != 0 || y[3] != (float)k) {
      printf("wrong %g %g %g %g\n", y[0], y[1], y[2], y[3]);
      exit(2);
    }
    ((void (*)(void*))api[96])(value);
    ((void (*)(void*))api[96])(out);
    ((void (*)(void*))api[94])(info);
  }
  return NULL;
}

int main(int count, char** words) {
  if (count < 5) return 64;
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return printf("failed load: %s\n", dlerror()), 1;
  Base* (*get)(void) = (Base * (*)(void)) dlsym(library, "OrtGetApiBase");
  api = get()->GetApi(23);
  if (!api) return printf("failed api: %s\n", get()->GetVersionString()), 1;
  void *env, *options;
  check(F(3, int, const char*, void**)(3, "host", &env), "environment");
  Status status = F(301, void*, const char*, const char*)(env, "HipDNNExecutionProvider", words[2]);
  if (!strcmp(words[4], "fail")) {
    printf("%d %s\n", status ? ((int (*)(Status))api[1])(status) : 0, status ? ((const char* (*)(Status))api[2])(status) : "");
    return status ? 0 : 3;
  }
  check(status, "registration");
  void* const* devices;
  size_t found;
  check(F(303, void*, void* const**, size_t*)(env, &devices, &found), "devices");
  const void* chosen = NULL;
  for (size_t k = 0; k < found; ++k)
    if (!strcmp(((const char* (*)(const void*))api[312])(devices[k]), "HipDNNExecutionProvider")) chosen = devices[k];
  if (!chosen) return printf("failed: no device\n"), 1;
  check(F(10, void**)(&options), "options");
  check(F(130, void*, const char*, const char*)(options, "session.disable_cpu_ep_fallback", "1"), "entry");
  check(F(304, void*, void*, const void* const*, size_t, const char* const*, const char* const*, size_t)(options, env, &chosen, 1, NULL, NULL, 0), "provider");
  check(F(7, void*, const char*, void*, void**)(env, words[3], options, &session), "session");
  times = count > 5 ? atoi(words[5]) : 1;
  pthread_t threads[64];
  int many = count > 6 ? atoi(words[6]) : 0;
  for (int k = 0; k < many; ++k) pthread_create(&threads[k], NULL, work, NULL);
  for (int k = 0; k < many; ++k) pthread_join(threads[k], NULL);
  work(NULL);
  ((void (*)(void*))api[95])(session);
  ((void (*)(void*))api[100])(options);
  check(F(302, void*, const char*)(env, "HipDNNExecutionProvider"), "unregistration");
  ((void (*)(void*))api[92])(env);
  printf("done\n");
  return 0;
}
