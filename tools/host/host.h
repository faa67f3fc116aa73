// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* A host of engine plugins: what hipDNN's backend does, in its order, in the terms of each era.
 *
 *   N25   hipDNN of November 2025: no API version, log level, names, overrides or plans as bytes
 *   M26   of spring 2026: overrides, knobs, plans as bytes
 *   NEW   the newest: names that make ids, plans as bytes with the engine's id, more tolerance
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct { const void* ptr; size_t size; } data_t;
typedef struct { int64_t uid; void* ptr; } buffer_t;
typedef enum { N25, M26, NEW } era_t;
enum { SUCCESS, BAD_PARAM, INVALID_VALUE, INTERNAL_ERROR, ALLOC_FAILED, NOT_APPLICABLE };
enum { MOST = 64 }; /* plugins, engines of one, buffers of a graph */

/* X(required, since, type of the result, short name, symbol, parameters) */
#define CALLS(X) \
  X(1, N25, int, GetName, "PluginGetName", (const char**)) \
  X(1, N25, int, GetVersion, "PluginGetVersion", (const char**)) \
  X(1, N25, int, GetType, "PluginGetType", (int*)) \
  X(1, N25, void, GetLastErrorString, "PluginGetLastErrorString", (const char**)) \
  X(0, N25, int, SetLoggingCallback, "PluginSetLoggingCallback", (void (*)(int, const char*))) \
  X(0, M26, int, SetLogLevel, "PluginSetLogLevel", (int)) \
  X(0, M26, int, GetApiVersion, "PluginGetApiVersion", (const char**)) \
  X(1, N25, int, GetAllEngineIds, "EnginePluginGetAllEngineIds", (int64_t*, uint32_t, uint32_t*)) \
  X(0, NEW, int, GetEngineName, "EnginePluginGetEngineName", (int64_t, const char**)) \
  X(1, N25, int, Create, "EnginePluginCreate", (void**)) \
  X(1, N25, int, Destroy, "EnginePluginDestroy", (void*)) \
  X(1, N25, int, SetStream, "EnginePluginSetStream", (void*, void*)) \
  X(1, N25, int, GetApplicableEngineIds, "EnginePluginGetApplicableEngineIds", \
    (void*, const data_t*, int64_t*, uint32_t, uint32_t*)) \
  X(1, N25, int, GetEngineDetails, "EnginePluginGetEngineDetails", (void*, int64_t, const data_t*, data_t*)) \
  X(1, N25, int, DestroyEngineDetails, "EnginePluginDestroyEngineDetails", (void*, data_t*)) \
  X(1, N25, int, GetWorkspaceSize, "EnginePluginGetWorkspaceSize", (void*, const data_t*, const data_t*, size_t*)) \
  X(1, N25, int, CreateExecutionContext, "EnginePluginCreateExecutionContext", \
    (void*, const data_t*, const data_t*, void**)) \
  X(1, N25, int, DestroyExecutionContext, "EnginePluginDestroyExecutionContext", (void*, void*)) \
  X(1, N25, int, GetWorkspaceSizeFromExecutionContext, "EnginePluginGetWorkspaceSizeFromExecutionContext", \
    (void*, void*, size_t*)) \
  X(1, N25, int, ExecuteOpGraph, "EnginePluginExecuteOpGraph", (void*, void*, void*, const buffer_t*, uint32_t)) \
  X(0, M26, int, ExecuteOpGraphWithOverrides, "EnginePluginExecuteOpGraphWithOverrides", \
    (void*, void*, void*, const buffer_t*, uint32_t, uint32_t, const int64_t*, const uint32_t*, \
     const int64_t* const*, const int64_t* const*)) \
  X(0, M26, int, Serialize, "EnginePluginSerializeExecutionContext", (void*, void*, data_t*)) \
  X(0, NEW, int, SerializeWithId, "EnginePluginSerializeExecutionContextWithEngineId", \
    (void*, int64_t, void*, data_t*)) \
  X(0, M26, int, DestroySerialized, "EnginePluginDestroySerializedExecutionContext", (void*, data_t*)) \
  X(0, M26, int, CreateFromSerialized, "EnginePluginCreateExecutionContextFromSerialized", \
    (void*, const data_t*, void**))

typedef struct {
#define FIELD(required, since, result, name, symbol, parameters) result (*name) parameters;
  CALLS(FIELD)
#undef FIELD
  void* so;
  const char *name, *version, *api;
  int64_t ids[MOST];
  uint32_t engines;
} plugin_t;

/* ------------------------------------------------------------------ plugins.c */

extern plugin_t plugin[MOST];
extern int plugins; /* how many are loaded */
extern era_t era;
#define P plugin[0]

/* Load one and return NULL, or why it is not used; the log goes to a sink, at a level (-1: not told). */
const char* plugin_load(const char* path, void (*sink)(int, const char*), int level);
int plugin_of(int64_t engine); /* -1: of none */
int create_handles(void** of); /* one of each plugin; a status as hipdnnCreate gives it, SUCCESS or not */
int applicable(void** of, const data_t* graph, int64_t* ids, uint32_t most, uint32_t* count); /* best first */
const char* last_error_of(const plugin_t* p);
int64_t engine_of(const data_t* config); /* the engine that a configuration is for */
/* NULL, or what is wrong with a description that a plugin gives of its engine */
const char* read_details(const data_t* details, int64_t engine, void (*knob)(const char* name, int type));

/* ------------------------------------------------------------------ memory.c */

typedef struct { uint8_t *first, *data; size_t length, bytes; int read; } zone_t; /* between pages that nobody may touch */
zone_t zone_of(size_t bytes, size_t skew, int at_the_end, int fill);
/* A new stream of GPU 1 where HOST_HIP names a library of HIP, which then can access all zones; else NULL. */
void* gpu_stream(void);
void zone_to_read(zone_t* zone); /* around it are NaNs of every type: a result shows that they were read */
int zone_broken(const zone_t* zone); /* bytes that were written outside of the data */
void zone_free(zone_t* zone);

typedef struct {
  buffer_t buffers[MOST];
  zone_t zones[MOST];
  size_t bytes[MOST];
  char out[MOST][4096];
  uint8_t* before[MOST]; /* what an operand held */
  uint32_t count;
} job_t;
void read_job(const char* path, job_t* job);
void write_results(const job_t* job);
const char* job_broken(const job_t* job); /* NULL, or which buffer was written where it must not be */
void free_job(job_t* job);

typedef struct { /* dims and strides that a call gives in place of the graph's */
  uint32_t count, ranks[MOST];
  int64_t uids[MOST], rows[MOST][16];
  const int64_t *dims[MOST], *strides[MOST];
} shapes_t;
void read_shapes(const char* path, shapes_t* shapes); /* none of a file that is not there */

data_t slurp(const char* path); /* a file, in memory that nothing may be read or written beyond */
void forget(data_t* data);      /* unmaps it: a plugin that still reads it crashes */
