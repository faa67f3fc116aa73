// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* The hipDNN engine plugin: C entry points whose bodies are Python functions.
 *
 * The interpreter is found, or started, at the first call that needs it; the module ENTRY then
 * fills the table below with Python functions (`python_host.h`).  What never changes (name, type,
 * engine id) and what Python cannot tell (why it does not start, the log sink) is answered here.
 *
 * docs/plugin.md describes the behaviour; hipdnn_plugin/abi.py holds the other half of the table.
 */
#define LIBRARY "the plugin"
#define LOGGER "hipdnn_iree.plugin"
#define INSTALL "hipdnn-iree plugin install"
#define ENTRY "hipdnn_iree.hipdnn_plugin.entry"
#define ENGINE_NAME "IREE_JIT_ENGINE"
#define API_VERSION "1.4.0" /* engine names; what lies below it is served or declined by rule */
#define TABLE_VERSION 4 /* raise it with every change of struct table */

enum status { SUCCESS, BAD_PARAM, INVALID_VALUE, INTERNAL_ERROR, ALLOC_FAILED, NOT_APPLICABLE, LAST = 6 };

#include "../../provider/native/python_host.h"
#include "../../provider/native/small_stacks.h"

typedef struct { const void* ptr; size_t size; } const_data;
typedef struct { int64_t uid; void* ptr; } device_buffer;

/* ------------------------------------------------------------------ the table that Python fills */

#define P hipdnnEnginePlugin
#define NAME2(a, b) a##b
#define NAME(a, b) NAME2(a, b)
/* X(name without prefix, parameters, names of the parameters, how PyObject_CallFunction takes them:
 * pointers as ssize_t); abi.py has the same list */
#define FORWARDED(X) \
  X(Create, (void** handle), (handle), "n") \
  X(Destroy, (void* handle), (handle), "n") \
  X(SetStream, (void* handle, void* stream), (handle, stream), "nn") \
  X(GetApplicableEngineIds, (void* handle, const const_data* graph, int64_t* ids, uint32_t most, uint32_t* count), \
    (handle, graph, ids, most, count), "nnnIn") \
  X(GetEngineDetails, (void* handle, int64_t id, const const_data* graph, const_data* details), \
    (handle, id, graph, details), "nLnn") \
  X(DestroyEngineDetails, (void* handle, const_data* details), (handle, details), "nn") \
  X(GetWorkspaceSize, (void* handle, const const_data* config, const const_data* graph, size_t* size), \
    (handle, config, graph, size), "nnnn") \
  X(CreateExecutionContext, (void* handle, const const_data* config, const const_data* graph, void** context), \
    (handle, config, graph, context), "nnnn") \
  X(DestroyExecutionContext, (void* handle, void* context), (handle, context), "nn") \
  X(GetWorkspaceSizeFromExecutionContext, (void* handle, void* context, size_t* size), (handle, context, size), "nnn") \
  X(ExecuteOpGraph, (void* handle, void* context, void* workspace, const device_buffer* buffers, uint32_t count), \
    (handle, context, workspace, buffers, count), "nnnnI") \
  X(ExecuteOpGraphWithOverrides, \
    (void* handle, void* context, void* workspace, const device_buffer* buffers, uint32_t count, uint32_t overrides, \
     const int64_t* uids, const uint32_t* lengths, const int64_t* const* shapes, const int64_t* const* strides), \
    (handle, context, workspace, buffers, count, overrides, uids, lengths, shapes, strides), "nnnnIInnnn") \
  X(SerializeExecutionContextWithEngineId, (void* handle, int64_t id, void* context, const_data* serialized), \
    (handle, id, context, serialized), "nLnn") \
  X(SerializeExecutionContext, (void* handle, void* context, const_data* serialized), (handle, context, serialized), "nnn") \
  X(DestroySerializedExecutionContext, (void* handle, const_data* serialized), (handle, serialized), "nn") \
  X(CreateExecutionContextFromSerialized, (void* handle, const const_data* payload, void** context, void** fourth), \
    (handle, config_first(payload, context) ? (const void*)context : payload, \
     config_first(payload, context) ? fourth : context), "nnn")

static int64_t engine_id(void) { /* FNV-1a 64 of the name */
  uint64_t value = 0xCBF29CE484222325u;
  for (const char* at = ENGINE_NAME; *at; ++at) value = (value ^ (unsigned char)*at) * 0x100000001B3u;
  return (int64_t)value;
}

static uint32_t word(const_data d, size_t at, size_t bytes) {
  uint32_t value = 0;
  if (at <= d.size && d.size - at >= bytes) memcpy(&value, (const char*)d.ptr + at, bytes);
  return value;
}

/* A host of 2026 passes the engine's configuration before a plan as bytes, and so four arguments instead of three;
 * with three, nobody reads the fourth.  A configuration is a FlatBuffer with the engine's id in its first field. */
static int config_first(const const_data* second, void** third) {
  if (!second || !second->ptr || !third || !*third) return 0;
  const_data d = *second;
  int64_t own = engine_id();
  size_t root = word(d, 0, 4), vtable = root - (size_t)(int32_t)word(d, root, 4);
  size_t at = word(d, vtable, 2) > 4 ? root + word(d, vtable + 4, 2) : 0;
  return at > root && at <= d.size && d.size - at >= sizeof own && !memcmp((const char*)d.ptr + at, &own, sizeof own);
}

static struct table {
  HOST_FIELDS
#define FIELD(name, parameters, values, format) object* name;
  FORWARDED(FIELD)
} table = {HOST_VALUES};
static struct host* const host = (struct host*)&table;

/* ------------------------------------------------------------------ entry points */

#define BARE(...) __VA_ARGS__
#define BODY(name, parameters, values, format) \
  API int NAME(P, name) parameters { \
    atomic_fetch_add(&inflight, 1); \
    int status; \
    if (__builtin_expect(!roomy(strcmp(#name, "ExecuteOpGraph") ? PLAN_STACK : EXECUTE_STACK), 0)) \
      status = elsewhere(&table.name, #name, "(" format ")", BARE values); \
    else if (!(status = enter())) { \
      int held = py.Ensure(); \
      status = answer(py.CallFunction(table.name, format, BARE values), #name); \
      py.Release(held); \
    } \
    atomic_fetch_sub(&inflight, 1); \
    return status; \
  }
FORWARDED(BODY)

static int give(const char** out, const char* text) {
  if (!out) return fail(BAD_PARAM, "null pointer for the result");
  *out = text;
  return SUCCESS;
}

API int hipdnnPluginGetName(const char** name) { return give(name, "hipdnn-iree"); }
API int hipdnnPluginGetVersion(const char** version) { return give(version, LIBRARY_VERSION); }
API int hipdnnPluginGetApiVersion(const char** version) { return give(version, API_VERSION); }

API int hipdnnPluginGetType(int* type) {
  if (!type) return fail(BAD_PARAM, "null pointer for the result");
  *type = 1; /* an engine plugin */
  return SUCCESS;
}

API void hipdnnPluginGetLastErrorString(const char** text) {
  if (text) *text = last_error;
}

API int hipdnnPluginSetLoggingCallback(log_sink callback) {
  atomic_store(&sink, callback);
  return SUCCESS;
}

API int hipdnnPluginSetLogLevel(int level) {
  if (level < INFO || level > OFF) return fail(INVALID_VALUE, "log level %d; wanted 0 (info) to 4 (off)", level);
  atomic_store(&wanted_level, level);
  if (atomic_load(&state) != READY) return SUCCESS; /* Python asks when it starts */
  atomic_fetch_add(&inflight, 1);
  if (!roomy(PLAN_STACK)) elsewhere(&host->set_level, "SetLogLevel", "(i)", level);
  else if (!enter()) run(host->set_level, "i", level);
  atomic_fetch_sub(&inflight, 1);
  return SUCCESS; /* the level holds in any case */
}

/* Whether this thread has the GIL of a host's Python.  hipDNN lists engines under a lock: importing
 * gives the GIL to threads that may want that lock. */
static int holds_gil(void) {
  int (*running)(void) = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  int (*held)(void) = dlsym(RTLD_DEFAULT, "PyGILState_Check");
  return running && held && running() && held();
}

/* No engine where the plugin cannot serve: hipDNN then goes on without it, whereas a handle that is
 * refused ended hipdnnCreate in November 2025. */
API int hipdnnEnginePluginGetAllEngineIds(int64_t* ids, uint32_t most, uint32_t* count) {
  if (!count || (most && !ids)) return fail(BAD_PARAM, "null pointer for the result");
  *count = 0;
  if (atomic_load(&state) == COLD && !holds_gil()) {
    atomic_fetch_add(&inflight, 1);
    int status = roomy(PLAN_STACK) ? start() : elsewhere(NULL, "GetAllEngineIds", "()");
    atomic_fetch_sub(&inflight, 1);
    if (status) return status;
  }
  *count = 1;
  if (most) *ids = engine_id();
  return SUCCESS;
}

API int hipdnnEnginePluginGetEngineName(int64_t id, const char** name) {
  if (id != engine_id()) return fail(NOT_APPLICABLE, "engine %lld is not of this plugin", (long long)id);
  return give(name, ENGINE_NAME);
}
