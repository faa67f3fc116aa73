// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* A stand-in for libhipdnn_backend.so, for the tests: the descriptor calls that a client of graphs
 * makes, over whatever engine plugins are in its folder.
 *
 * Semantics as hipDNN documents them: attributes are set before Finalize and read after it, in
 * their own types; results of heuristics are put into configurations that the caller has made;
 * the engine of a configuration is a new descriptor.  Stricter than hipDNN, to catch mistakes: a
 * descriptor that others still use must not be destroyed, and none may be left at hipdnnDestroy.
 *
 * HIPDNN_STANDIN=crash|hang|null|no_engines|none makes hipdnnCreate or the heuristics misbehave.
 * -DOLD leaves out what hipDNN of November 2025 did not have, and wants the handle on plans.
 */
#define _GNU_SOURCE
#include "host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { OK, NOT_INITIALIZED, NULL_POINTER = 3, NOT_FINALIZED, NOT_SUPPORTED = 8, INTERNAL = 9, PLUGIN = 14 };
enum { ENGINE = 1, CONFIG, HEURISTIC, PLAN, GRAPH = 10, PACK };
enum { T_HANDLE = 0, T_INT64 = 3, T_POINTER = 6, T_MODE = 7, T_DESCRIPTOR = 13 };

static _Thread_local char last_error[2048];

static int fail(int status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof last_error, format, values);
  va_end(values);
  return status;
}

static int told(const char* what) {
  const char* text = getenv("HIPDNN_STANDIN");
  return text && !strcmp(text, what);
}

/* ------------------------------------------------------------------ plugins */

typedef struct { void* of[MOST]; void* stream; int descriptors; } handle_t;

static int loaded;

static int is_library(const struct dirent* entry) {
  size_t length = strlen(entry->d_name);
  return length > 3 && !strcmp(entry->d_name + length - 3, ".so");
}

static void load_all(void) {
  char folder[4096];
  const char* given = getenv("HIPDNN_PLUGIN_DIR");
  Dl_info about;
  dladdr((void*)load_all, &about);
  if (given && *given) {
    snprintf(folder, sizeof folder, "%s", given);
  } else {
    const char* slash = strrchr(about.dli_fname, '/');
    snprintf(folder, sizeof folder, "%.*s/hipdnn_plugins/engines", (int)(slash - about.dli_fname), about.dli_fname);
  }
  struct dirent** files;
  int count = scandir(folder, &files, is_library, alphasort);
  loaded = 1;
  era = NEW;
#ifdef OLD
  era = N25;
#endif
  for (int i = 0; i < count; ++i) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
    plugin_load(path, NULL, -1); /* one that cannot be loaded is left out */
    free(files[i]);
  }
  if (count >= 0) free(files);
}

static int plugin_error(int i, const char* call) {
  return fail(PLUGIN, "%s of %s failed: %s", call, plugin[i].name, last_error_of(&plugin[i]));
}

/* ------------------------------------------------------------------ descriptors */

typedef struct descriptor {
  int type, finalized, users, owned; /* owned: made here, goes with its last user */
  handle_t* handle;
  struct descriptor *graph, *engine, *config; /* what it uses */
  uint8_t* bytes;                             /* GRAPH */
  size_t size;
  int64_t id;                                 /* ENGINE */
  int64_t found[MOST];                        /* HEURISTIC */
  int64_t count;
  int by;                                     /* PLAN: the plugin, its context */
  void* context;
  size_t workspace_size;
  int64_t uids[64], over[64], lengths[64], shapes[256], strides[256]; /* PACK */
  void* pointers[64];
  int64_t uid_count, pointer_count, over_count;
  void* workspace;
} descriptor_t;

static descriptor_t* use(descriptor_t* d) {
  if (d) ++d->users;
  return d;
}

static descriptor_t* make(int type, handle_t* handle) {
  descriptor_t* d = calloc(1, sizeof *d);
  d->type = type, d->handle = handle;
  if (handle) ++handle->descriptors;
  return d;
}

API int hipdnnBackendCreateDescriptor(int type, descriptor_t** out) {
  if (!out) return fail(NULL_POINTER, "null pointer for the descriptor");
  if (type != ENGINE && type != CONFIG && type != HEURISTIC && type != PLAN && type != PACK)
    return fail(NOT_SUPPORTED, "descriptors of type %d are not made", type);
  *out = make(type, NULL);
  return OK;
}

API int hipdnnBackendDestroyDescriptor(descriptor_t* d) {
  if (!d) return fail(NULL_POINTER, "null descriptor");
  if (d->users) {
    fprintf(stderr, "a descriptor of type %d is destroyed while %d others use it\n", d->type, d->users);
    abort();
  }
  if (d->context) plugin[d->by].DestroyExecutionContext(d->handle->of[d->by], d->context);
  descriptor_t* used[] = {d->graph, d->engine, d->config};
  for (int i = 0; i < 3; ++i)
    if (used[i] && !--used[i]->users && used[i]->owned) hipdnnBackendDestroyDescriptor(used[i]);
  if (d->handle) --d->handle->descriptors;
  free(d->bytes);
  free(d);
  return OK;
}

API int hipdnnBackendCreateAndDeserializeGraph_ext(descriptor_t** out, const uint8_t* bytes, size_t size) {
  if (!out || !bytes) return fail(NULL_POINTER, "null pointer");
  if (!size) return fail(BAD_PARAM, "an empty graph");
  descriptor_t* d = make(GRAPH, NULL);
  d->bytes = malloc(size), d->size = size;
  memcpy(d->bytes, bytes, size);
  *out = d;
  return OK;
}

#define WANT(kind, number)                                                                          \
  if (type != (kind) || ((number) >= 0 && count != (number)))                                        \
    return fail(BAD_PARAM, "attribute %d: type %d, %ld elements", name, type, (long)count)

API int hipdnnBackendSetAttribute(descriptor_t* d, int name, int type, int64_t count, const void* values) {
  if (!d || (count && !values)) return fail(NULL_POINTER, "null pointer");
  if (d->finalized) return fail(NOT_INITIALIZED, "the descriptor is finalized");
  descriptor_t* other = type == T_DESCRIPTOR ? *(descriptor_t* const*)values : NULL;
  if (type == T_DESCRIPTOR && (!other || !other->finalized)) return fail(NOT_FINALIZED, "the other is not finalized");
  switch (d->type * 10000 + name) {
    case GRAPH * 10000 + 600:
      WANT(T_HANDLE, 1);
      d->handle = *(handle_t* const*)values;
      ++d->handle->descriptors;
      return OK;
    case HEURISTIC * 10000 + 100: WANT(T_MODE, -1); return OK;
    case HEURISTIC * 10000 + 101: WANT(T_DESCRIPTOR, 1); d->graph = use(other); return OK;
    case ENGINE * 10000 + 1000: WANT(T_DESCRIPTOR, 1); d->graph = use(other); return OK;
    case ENGINE * 10000 + 1001: WANT(T_INT64, 1); d->id = *(const int64_t*)values; return OK;
    case CONFIG * 10000 + 200: WANT(T_DESCRIPTOR, 1); d->engine = use(other); return OK;
#ifdef OLD
    case PLAN * 10000 + 300: WANT(T_HANDLE, 1); d->by = 1; return OK;
#endif
    case PLAN * 10000 + 301: WANT(T_DESCRIPTOR, 1); d->config = use(other); return OK;
    case PACK * 10000 + 700: WANT(T_INT64, -1); memcpy(d->uids, values, 8 * (d->uid_count = count)); return OK;
    case PACK * 10000 + 701: WANT(T_POINTER, -1); memcpy(d->pointers, values, 8 * (d->pointer_count = count)); return OK;
    case PACK * 10000 + 703: WANT(T_POINTER, 1); d->workspace = *(void* const*)values; return OK;
    case PACK * 10000 + 704: WANT(T_INT64, -1); memcpy(d->over, values, 8 * (d->over_count = count)); return OK;
    case PACK * 10000 + 705: WANT(T_INT64, -1); memcpy(d->shapes, values, 8 * count); return OK;
    case PACK * 10000 + 706: WANT(T_INT64, -1); memcpy(d->strides, values, 8 * count); return OK;
    case PACK * 10000 + 707: WANT(T_INT64, -1); memcpy(d->lengths, values, 8 * count); return OK;
    default: return fail(NOT_SUPPORTED, "attribute %d is not set on descriptors of type %d", name, d->type);
  }
}

static void give(int64_t* count, int64_t n) { if (count) *count = n; }

API int hipdnnBackendGetAttribute(descriptor_t* d, int name, int type, int64_t count, int64_t* got, void* values) {
  if (!d) return fail(NULL_POINTER, "null descriptor");
  if (!d->finalized) return fail(NOT_INITIALIZED, "the descriptor is not finalized");
  switch (d->type * 10000 + name) {
    case HEURISTIC * 10000 + 102:
      WANT(T_DESCRIPTOR, -1);
      if (!count) { give(got, d->count); return OK; }
      int64_t n = count < d->count ? count : d->count;
      for (int64_t i = 0; i < n; ++i) {
        descriptor_t *config = ((descriptor_t**)values)[i], *engine;
        if (!config || config->type != CONFIG || config->finalized) return fail(BAD_PARAM, "a configuration to fill");
        engine = make(ENGINE, d->graph->handle);
        engine->graph = use(d->graph), engine->id = d->found[i];
        engine->finalized = engine->owned = 1;
        config->engine = use(engine);
      }
      give(got, n);
      return OK;
    case CONFIG * 10000 + 200:
      WANT(T_DESCRIPTOR, 1);
      descriptor_t* copy = make(ENGINE, d->engine->handle);
      copy->graph = use(d->engine->graph), copy->id = d->engine->id, copy->finalized = 1;
      *(descriptor_t**)values = copy;
      give(got, 1);
      return OK;
    case ENGINE * 10000 + 1001: WANT(T_INT64, 1); *(int64_t*)values = d->id; give(got, 1); return OK;
    case PLAN * 10000 + 302: WANT(T_INT64, 1); *(int64_t*)values = d->workspace_size; give(got, 1); return OK;
    default: return fail(NOT_SUPPORTED, "attribute %d is not read from descriptors of type %d", name, d->type);
  }
}

static int finalize_engine(descriptor_t* d) {
  if (!d->graph) return fail(BAD_PARAM, "an engine without a graph");
  int by = plugin_of(d->id);
  if (by < 0) return fail(BAD_PARAM, "no plugin has engine %ld", (long)d->id);
  data_t graph = {d->graph->bytes, d->graph->size}, details = {0};
  void* handle = d->graph->handle->of[by];
  if (plugin[by].GetEngineDetails(handle, d->id, &graph, &details)) return plugin_error(by, "GetEngineDetails");
  plugin[by].DestroyEngineDetails(handle, &details);
  d->handle = d->graph->handle;
  ++d->handle->descriptors;
  return OK;
}

static int finalize_plan(descriptor_t* d) {
  if (!d->config) return fail(BAD_PARAM, "a plan without a configuration");
#ifdef OLD
  if (!d->by) return fail(BAD_PARAM, "a plan without a handle");
#endif
  descriptor_t* engine = d->config->engine;
  d->handle = engine->handle;
  ++d->handle->descriptors;
  d->by = plugin_of(engine->id);
  /* EngineConfig{engine_id}: a root, a vtable of one slot, the table. */
  uint8_t bytes[24] = {12, 0, 0, 0, 6, 0, 12, 0, 4, 0, 0, 0, 8, 0, 0, 0};
  memcpy(bytes + 16, &engine->id, 8);
  data_t config = {bytes, sizeof bytes}, graph = {engine->graph->bytes, engine->graph->size};
  const plugin_t* p = &plugin[d->by];
  void* handle = d->handle->of[d->by];
  if (p->CreateExecutionContext(handle, &config, &graph, &d->context)) return plugin_error(d->by, "CreateExecutionContext");
  if (p->GetWorkspaceSizeFromExecutionContext(handle, d->context, &d->workspace_size)) return plugin_error(d->by, "GetWorkspaceSize");
  return OK;
}

static int finalize_heuristic(descriptor_t* d) {
  if (!d->graph) return fail(BAD_PARAM, "heuristics without a graph");
  data_t graph = {d->graph->bytes, d->graph->size};
  uint32_t count = 0;
  if (told("no_engines")) return OK;
  if (applicable(d->graph->handle->of, &graph, d->found, MOST, &count)) return fail(PLUGIN, "GetApplicableEngineIds");
  d->count = count;
  return OK;
}

API int hipdnnBackendFinalize(descriptor_t* d) {
  if (!d) return fail(NULL_POINTER, "null descriptor");
  if (d->finalized) return fail(NOT_INITIALIZED, "the descriptor is finalized already");
  int status = OK;
  if (d->type == GRAPH && !d->handle) status = fail(BAD_PARAM, "a graph without a handle");
  if (d->type == ENGINE) status = finalize_engine(d);
  if (d->type == CONFIG && !d->engine) status = fail(BAD_PARAM, "a configuration without an engine");
  if (d->type == HEURISTIC) status = finalize_heuristic(d);
  if (d->type == PLAN) status = finalize_plan(d);
  if (d->type == PACK && d->uid_count != d->pointer_count) status = fail(BAD_PARAM, "uids and pointers differ");
  d->finalized = status == OK;
  return status;
}

API int hipdnnBackendExecute(handle_t* handle, descriptor_t* plan, descriptor_t* pack) {
  if (!handle || !plan || !pack) return fail(NULL_POINTER, "null pointer");
  if (!plan->finalized || !pack->finalized) return fail(NOT_FINALIZED, "not finalized");
  if (plan->workspace_size && !pack->workspace) return fail(BAD_PARAM, "no workspace");
  buffer_t buffers[64];
  for (int64_t i = 0; i < pack->uid_count; ++i) {
    if ((uintptr_t)pack->pointers[i] % 16) return fail(BAD_PARAM, "a pointer is not aligned");
    buffers[i].uid = pack->uids[i], buffers[i].ptr = pack->pointers[i];
  }
  const plugin_t* p = &plugin[plan->by];
  int status;
  if (pack->over_count) {
    if (!p->ExecuteOpGraphWithOverrides) return fail(NOT_SUPPORTED, "the plugin takes no overrides");
    uint32_t lengths[64];
    const int64_t *shapes[64], *strides[64];
    for (int64_t i = 0, at = 0; i < pack->over_count; at += pack->lengths[i++])
      lengths[i] = pack->lengths[i], shapes[i] = pack->shapes + at, strides[i] = pack->strides + at;
    status = p->ExecuteOpGraphWithOverrides(handle->of[plan->by], plan->context, pack->workspace, buffers, pack->uid_count,
                            pack->over_count, pack->over, lengths, shapes, strides);
  } else {
    status = p->ExecuteOpGraph(handle->of[plan->by], plan->context, pack->workspace, buffers, pack->uid_count);
  }
  return status ? plugin_error(plan->by, "ExecuteOpGraph") : OK;
}

/* ------------------------------------------------------------------ handles, errors, lists */

API int hipdnnCreate(handle_t** out) {
  if (told("crash")) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
  if (told("hang")) for (;;) pause();
  if (told("null")) { *out = NULL; return OK; }
  if (told("none")) return fail(INTERNAL, "no device was found");
  if (!loaded) load_all();
  handle_t* handle = calloc(1, sizeof *handle);
  if (create_handles(handle->of)) return fail(PLUGIN, "Create");
  *out = handle;
  return OK;
}

API int hipdnnDestroy(handle_t* handle) {
  if (!handle) return fail(NULL_POINTER, "null handle");
  if (handle->descriptors) {
    fprintf(stderr, "%d descriptors are left\n", handle->descriptors);
    abort();
  }
  for (int i = 0; i < plugins; ++i)
    if (handle->of[i]) plugin[i].Destroy(handle->of[i]);
  free(handle);
  return OK;
}

API int hipdnnSetStream(handle_t* handle, void* stream) {
  if (!handle) return fail(NULL_POINTER, "null handle");
  handle->stream = stream;
  for (int i = 0; i < plugins; ++i)
    if (handle->of[i] && plugin[i].SetStream(handle->of[i], stream)) return plugin_error(i, "SetStream");
  return OK;
}

API const char* hipdnnGetErrorString(int status) {
  return status == PLUGIN ? "HIPDNN_STATUS_PLUGIN_ERROR" : status == BAD_PARAM ? "HIPDNN_STATUS_BAD_PARAM" : "HIPDNN_STATUS";
}

API void hipdnnGetLastErrorString(char* text, size_t size) {
  snprintf(text, size, "%s", last_error);
  last_error[0] = 0;
}

API int standin_descriptors(handle_t* handle) { return handle->descriptors; }

#ifndef OLD
API int hipdnnGetVersion_ext(const char** version) { *version = "1.4.0-standin"; return OK; }

API int hipdnnGetEngineCount_ext(handle_t* handle, size_t* count) {
  if (!handle || !count) return fail(NULL_POINTER, "null pointer");
  *count = 0;
  for (int i = 0; i < plugins; ++i) *count += plugin[i].engines;
  return OK;
}

static void put(const char* text, char* out, size_t* size) {
  if (out && *size) snprintf(out, *size, "%s", text);
  *size = strlen(text) + 1;
}

API int hipdnnGetEngineInfo_ext(handle_t* handle, size_t index, int64_t* id, char* name, size_t* name_size, char* by,
                                size_t* by_size, char* version, size_t* version_size, char* type, size_t* type_size) {
  if (!handle || !name_size || !by_size || !version_size || !type_size) return fail(NULL_POINTER, "null pointer");
  for (int i = 0; i < plugins; index -= plugin[i++].engines) {
    if (index >= plugin[i].engines) continue;
    const char* text = "";
    if (id) *id = plugin[i].ids[index];
    if (plugin[i].GetEngineName) plugin[i].GetEngineName(plugin[i].ids[index], &text);
    put(text, name, name_size), put(plugin[i].name, by, by_size);
    put(plugin[i].version, version, version_size), put("engine", type, type_size);
    return OK;
  }
  return fail(BAD_PARAM, "engine %zu is out of range", index);
}
#endif
