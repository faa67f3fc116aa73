// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* A program without Python that loads an engine plugin as hipDNN does, for `plugin doctor`.
 *
 *   host LIBRARY [ENGINE GRAPH]
 *
 * What the library says goes to stdout as pairs "key value", each ended by a NUL.  One that lists
 * the engine of this id is also asked whether it serves the graph in a file.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { const void* ptr; size_t size; } const_data;

static void tell(const char* key, const char* value) {
  printf("%s %s", key, value ? value : "");
  putchar(0);
  fflush(stdout); /* whatever happens next */
}

static void on_log(int severity, const char* text) {
  (void)severity; /* it stands in the line */
  tell("log", text);
}

static void* library;
static int absent(const char* name) {
  tell("loader", name);
  _exit(1);
}
/* Look a function up; hipDNN does without those of `optional`. */
#define FIND(name, parameters, optional) \
  int (*name) parameters = dlsym(library, "hipdnn" #name); \
  if (!name && !optional) absent("it has no function hipdnn" #name)

static const_data read_file(const char* path) {
  static char memory[1 << 20];
  FILE* file = fopen(path, "rb");
  size_t size = file ? fread(memory, 1, sizeof memory, file) : 0;
  if (file) fclose(file);
  return (const_data){memory, size};
}

static void end(int status) {
  const char* text = NULL;
  FIND(PluginGetLastErrorString, (const char**), 0);
  if (status) PluginGetLastErrorString(&text), tell("error", text);
  _exit(status != 0); /* what it does at the end of a process is not asked */
}

int main(int count, char** args) {
  if (count < 2) return 2;
  library = dlopen(args[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    tell("loader", dlerror());
    return 1;
  }
  const char* text = NULL;
  void* handle = NULL;
  uint32_t engines = 0;
  FIND(PluginGetVersion, (const char**), 0);
  FIND(PluginSetLoggingCallback, (void (*)(int, const char*)), 1);
  FIND(PluginSetLogLevel, (int), 1);
  FIND(EnginePluginGetAllEngineIds, (int64_t*, uint32_t, uint32_t*), 0);
  FIND(EnginePluginCreate, (void**), 0);
  FIND(EnginePluginGetApplicableEngineIds, (void*, const const_data*, int64_t*, uint32_t, uint32_t*), 0);
  if (PluginSetLoggingCallback) PluginSetLoggingCallback(on_log);
  if (PluginSetLogLevel) PluginSetLogLevel(0);
  if (!PluginGetVersion(&text)) tell("version", text);
  int status = EnginePluginGetAllEngineIds(NULL, 0, &engines), ours = 0;
  int64_t* ids = calloc(engines + 1, sizeof *ids);
  if (!status) status = EnginePluginGetAllEngineIds(ids, engines, &engines);
  if (status) end(status);
  for (uint32_t k = 0; k < engines; ++k) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)ids[k]);
    tell("engine", number);
    ours |= count > 3 && !strcmp(number, args[2]);
  }
  if (!ours) end(0);
  if ((status = EnginePluginCreate(&handle))) end(status);
  const_data graph = read_file(args[3]);
  status = EnginePluginGetApplicableEngineIds(handle, &graph, ids, engines, &engines);
  if (!status) tell("serves", engines ? "yes" : "no");
  end(status);
}
