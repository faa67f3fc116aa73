// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* An engine plugin of hipDNN for the tests: naive loops in f32 on host pointers.
 *
 * It serves graphs of conv_fprop (2 spatial dims), matmul and some pointwise modes, in any strides,
 * and reads the FlatBuffers itself, of both eras.  How it misbehaves is decided by the name of its
 * file: a copy called crash_on_create.so crashes in Create, one called naive.so behaves.
 *
 * -DN25 leaves out what hipDNN of November 2025 did not have, and numbers the engine.
 * -DINCOMPLETE leaves out a required function, -DFIXED the optional one for override shapes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef struct { const void* ptr; size_t size; } data_t;
typedef struct { int64_t uid; void* ptr; } buffer_t;
enum { SUCCESS, BAD_PARAM, INVALID_VALUE, INTERNAL_ERROR, ALLOC_FAILED, NOT_APPLICABLE };

#ifdef N25
#define ENGINE_ID 4242
#else
#define ENGINE_ID ((int64_t)engine_id("TEST_NAIVE_ENGINE"))
#endif

/* ------------------------------------------------------------------ how it misbehaves */

static char how[64];

static int is(const char* name) { return !strcmp(how, name); }

static void misbehave(const char* where) {
  char name[80];
  snprintf(name, sizeof name, "crash_on_%s", where);
  if (is(name)) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
  snprintf(name, sizeof name, "abort_on_%s", where);
  if (is(name)) abort();
  snprintf(name, sizeof name, "exit_on_%s", where);
  if (is(name)) _exit(3);
  snprintf(name, sizeof name, "hang_on_%s", where);
  if (is(name)) for (;;) pause();
}

__attribute__((constructor)) static void loaded(void) {
  Dl_info about;
  if (dladdr((void*)loaded, &about) && about.dli_fname) {
    const char* slash = strrchr(about.dli_fname, '/');
    snprintf(how, sizeof how, "%s", slash ? slash + 1 : about.dli_fname);
    how[strcspn(how, ".")] = 0;
  }
  if (is("chatty"))
    for (int i = 0; i < 40000; ++i) {
      fprintf(stdout, "{\"done\": \"this is no answer\"} %d\n", i);
      fprintf(stderr, "noise %d\n", i);
    }
  misbehave("load");
}

__attribute__((destructor)) static void unloaded(void) { misbehave("exit"); }

/* ------------------------------------------------------------------ errors, log, ids */

static _Thread_local char last_error[2048];
static void (*sink)(int, const char*);
static int level = 4;

static int fail(int status, const char* text) {
  snprintf(last_error, sizeof last_error, "%s", text);
  return status;
}

static void say(const char* text) { if (sink && level <= 0) sink(0, text); }

static uint64_t engine_id(const char* name) {
  uint64_t value = 0xCBF29CE484222325u;
  for (; *name; ++name) value = (value ^ (unsigned char)*name) * 0x100000001B3u;
  return value;
}

/* ------------------------------------------------------------------ FlatBuffers */

typedef const uint8_t* at;
static uint16_t u16(at p) { uint16_t v; memcpy(&v, p, 2); return v; }
static uint32_t u32(at p) { uint32_t v; memcpy(&v, p, 4); return v; }
static int64_t s64(at p) { int64_t v; memcpy(&v, p, 8); return v; }
static float f32(at p) { float v; memcpy(&v, p, 4); return v; }

static at root(const data_t* d) { return (at)d->ptr + u32(d->ptr); }
/* The place of a field in a table, or NULL where it is absent. */
static at field(at table, int id) {
  at vtable = table - (int32_t)u32(table);
  uint16_t where = 4 + 2 * id < u16(vtable) ? u16(vtable + 4 + 2 * id) : 0;
  return where ? table + where : NULL;
}
static at ref(at table, int id) { at p = field(table, id); return p ? p + u32(p) : NULL; }
static int64_t long_of(at table, int id) { at p = field(table, id); return p ? s64(p) : 0; }
static int byte_of(at table, int id) { at p = field(table, id); return p ? *p : 0; }
static uint32_t count(at vector) { return vector ? u32(vector) : 0; }
static at item(at vector, uint32_t i) { at p = vector + 4 + 4 * i; return p + u32(p); }
static int64_t number(at vector, uint32_t i) { return s64(vector + 4 + 8 * i); }

/* ------------------------------------------------------------------ graphs */

#define RANK 8
typedef struct {
  int64_t uid, dims[RANK], strides[RANK], bytes, offset;
  int rank, virtual, constant;
  float value, *memory;
} tensor_t;
typedef struct {
  int op, mode;
  tensor_t *in[2], *out;
  int64_t pad[2], stride[2], dilation[2];
} node_t;
typedef struct { uint32_t tensors, nodes; tensor_t* tensor; node_t* node; int64_t workspace; } graph_t;

enum { POINTWISE = 2, CONV = 5, MATMUL = 9 };

static void release(graph_t* g) { if (g) { free(g->tensor); free(g->node); free(g); } }

static tensor_t* find(graph_t* g, at table, int id) {
  at p = field(table, id);
  for (uint32_t i = 0; p && i < g->tensors; ++i) if (g->tensor[i].uid == s64(p)) return &g->tensor[i];
  return NULL;
}

static const char* read_node(graph_t* g, at table, node_t* n) {
  int old = !field(table, 3);
  n->op = byte_of(table, old ? 1 : 2);
  at a = ref(table, old ? 2 : 3);
  if (!a) return "a node without attributes";
  if (n->op == POINTWISE) {
    static const uint8_t modes[] = {2, 23, 28, 30, 31, 34, 37, 42};
    n->mode = byte_of(a, 0);
    if (!memchr(modes, n->mode, sizeof modes)) return "this pointwise mode is not served";
    for (int id = 1; id <= 3; ++id) if (field(a, id)) return "clips of relu are not served";
    n->in[0] = find(g, a, 5), n->in[1] = find(g, a, 6), n->out = find(g, a, 8);
  } else if (n->op == CONV) {
    n->in[0] = find(g, a, 0), n->in[1] = find(g, a, 1), n->out = find(g, a, 2);
    if (byte_of(a, 7) != 2) return "only cross-correlation is served";
    at rows[] = {ref(a, 3), ref(a, 5), ref(a, 6)};
    for (int i = 0; i < 3; ++i) if (count(rows[i]) != 2) return "only 2 spatial dims are served";
    for (int i = 0; i < 2; ++i)
      n->pad[i] = number(rows[0], i), n->stride[i] = number(rows[1], i), n->dilation[i] = number(rows[2], i);
  } else if (n->op == MATMUL) {
    n->in[0] = find(g, a, 0), n->in[1] = find(g, a, 1), n->out = find(g, a, 2);
  } else {
    return "this op is not served";
  }
  if (!n->in[0] || !n->out || (n->op != POINTWISE && !n->in[1])) return "a tensor is missing";
  return NULL;
}

/* Return why a graph is not served, or NULL and the graph. */
static const char* read_graph(const data_t* data, graph_t** out) {
  at top = root(data), tensors = ref(top, 4), nodes = ref(top, 5);
  graph_t* g = calloc(1, sizeof *g);
  g->tensors = count(tensors), g->nodes = count(nodes);
  g->tensor = calloc(g->tensors + 1, sizeof *g->tensor);
  g->node = calloc(g->nodes + 1, sizeof *g->node);
  const char* why = NULL;
  for (uint32_t i = 0; !why && i < g->tensors; ++i) {
    at table = item(tensors, i);
    tensor_t* t = &g->tensor[i];
    at strides = ref(table, 3), dims = ref(table, 4);
    t->uid = long_of(table, 0), t->virtual = byte_of(table, 5), t->rank = count(dims);
    if (byte_of(table, 2) != 1) { why = "only float is served"; break; }
    if (byte_of(table, 8)) { why = "runtime scalars are not served"; break; }
    if (t->rank > RANK || count(strides) != count(dims)) { why = "rank"; break; }
    int64_t last = 1;
    for (int d = 0; d < t->rank; ++d) {
      t->dims[d] = number(dims, d), t->strides[d] = number(strides, d);
      last += (t->dims[d] - 1) * t->strides[d];
    }
    t->bytes = 4 * last;
    if (byte_of(table, 6)) {
      if (byte_of(table, 6) != 1) { why = "only float constants are served"; break; }
      t->constant = 1, t->value = f32(ref(table, 7));
    } else if (t->virtual) {
      t->offset = g->workspace;
      g->workspace += (t->bytes + 63) / 64 * 64;
    }
  }
  for (uint32_t i = 0; !why && i < g->nodes; ++i) why = read_node(g, item(nodes, i), &g->node[i]);
  if (why) { release(g); return why; }
  *out = g;
  return NULL;
}

/* ------------------------------------------------------------------ loops */

/* An element of a tensor that is broadcast to an index of another rank (right-aligned). */
static float get(const tensor_t* t, const int64_t* index, int rank) {
  if (t->constant) return t->value;
  int64_t where = 0;
  for (int d = 0; d < t->rank; ++d) {
    int64_t i = index[rank - t->rank + d];
    where += (t->dims[d] == 1 ? 0 : i) * t->strides[d];
  }
  return t->memory[where];
}

static float pointwise(int mode, float a, float b) {
  switch (mode) {
    case 2: return a + b;
    case 28: return a > b ? a : b;
    case 30: return a * b;
    case 31: return -a;
    case 34: return a > 0 ? a : 0;
    case 37: return 1 / (1 + expf(-a));
    case 42: return a - b;
    default: return a;
  }
}

static float conv(const node_t* n, const int64_t* o) {
  const tensor_t *x = n->in[0], *w = n->in[1];
  int64_t group = o[1] / (n->out->dims[1] / (x->dims[1] / w->dims[1]));
  float sum = 0;
  for (int64_t c = 0; c < w->dims[1]; ++c)
    for (int64_t r = 0; r < w->dims[2]; ++r)
      for (int64_t s = 0; s < w->dims[3]; ++s) {
        int64_t i = o[2] * n->stride[0] + r * n->dilation[0] - n->pad[0];
        int64_t j = o[3] * n->stride[1] + s * n->dilation[1] - n->pad[1];
        if (i < 0 || j < 0 || i >= x->dims[2] || j >= x->dims[3]) continue;
        int64_t from[4] = {o[0], group * w->dims[1] + c, i, j}, by[4] = {o[1], c, r, s};
        sum += get(x, from, 4) * get(w, by, 4);
      }
  return sum;
}

static float matmul(const node_t* n, const int64_t* o) {
  int rank = n->out->rank;
  int64_t a[RANK], b[RANK];
  for (int d = 0; d < rank; ++d) {
    int64_t most = n->out->dims[d];
    a[d] = d < rank - 2 ? o[d] / (most / n->in[0]->dims[d]) : o[d];
    b[d] = d < rank - 2 ? o[d] / (most / n->in[1]->dims[d]) : o[d];
  }
  float sum = 0;
  for (int64_t k = 0; k < n->in[0]->dims[rank - 1]; ++k) {
    a[rank - 1] = b[rank - 2] = k;
    sum += get(n->in[0], a, rank) * get(n->in[1], b, rank);
  }
  return sum;
}

static void run_node(const node_t* n) {
  const tensor_t* out = n->out;
  int64_t index[RANK] = {0};
  for (;;) {
    float value = n->op == CONV     ? conv(n, index)
                  : n->op == MATMUL ? matmul(n, index)
                                    : pointwise(n->mode, get(n->in[0], index, out->rank),
                                                n->in[1] ? get(n->in[1], index, out->rank) : 0);
    int64_t where = 0;
    for (int d = 0; d < out->rank; ++d) where += index[d] * out->strides[d];
    out->memory[where] = value;
    int d = out->rank - 1;
    while (d >= 0 && ++index[d] == out->dims[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

/* ------------------------------------------------------------------ generic functions */

API int hipdnnPluginGetName(const char** name) {
  *name = is("null_name") ? NULL : is("garbage_name") ? "\xff\xfe\x1b[2J\n\x80" : "naive loops";
  return SUCCESS;
}

API int hipdnnPluginGetVersion(const char** version) {
  if (is("error_version")) return fail(INTERNAL_ERROR, "the version is a secret");
  *version = "0.1";
  return SUCCESS;
}

API int hipdnnPluginGetType(int* type) {
  *type = is("other_type") ? 2 : 1;
  return SUCCESS;
}

API void hipdnnPluginGetLastErrorString(const char** text) {
  if (text) *text = is("null_error") ? NULL : last_error;
}

API int hipdnnPluginSetLoggingCallback(void (*callback)(int, const char*)) {
  sink = callback;
  return SUCCESS;
}

#ifndef N25
API int hipdnnPluginGetApiVersion(const char** version) {
  *version = is("api_2") ? "2.0.0" : is("api_garbage") ? "newest" : is("api_old") ? "1.0.0" : "1.3.0";
  return SUCCESS;
}

API int hipdnnPluginSetLogLevel(int wanted) {
  level = wanted;
  return SUCCESS;
}
#endif

/* ------------------------------------------------------------------ engine functions */

typedef struct { int64_t magic; void* stream; } handle_t;
static handle_t only;

static int known(const void* handle) { return handle && ((const handle_t*)handle)->magic == 0x1234567; }

#define HANDLE(h) if (!known(h)) return fail(BAD_PARAM, "this is no handle of the plugin")

API int hipdnnEnginePluginGetAllEngineIds(int64_t* ids, uint32_t most, uint32_t* n) {
  uint32_t total = is("no_engines") ? 0 : is("many_engines") ? UINT32_MAX : is("twice_id") ? 2 : 1;
  for (uint32_t i = 0; i < most && i < total; ++i) ids[i] = ENGINE_ID;
  *n = is("unstable_ids") && most ? total + 1 : total;
  return SUCCESS;
}

#ifndef N25
API int hipdnnEnginePluginGetEngineName(int64_t id, const char** name) {
  if (!name || id != ENGINE_ID) return fail(BAD_PARAM, "no such engine");
  if (is("unnamed")) return NOT_APPLICABLE;
  *name = is("null_engine_name") ? NULL : is("wrong_engine_name") ? "SOME_OTHER_ENGINE" : "TEST_NAIVE_ENGINE";
  return SUCCESS;
}
#endif

API int hipdnnEnginePluginCreate(void** handle) {
  misbehave("create");
  if (is("create_fails")) return fail(ALLOC_FAILED, "there is no room for a handle");
  if (is("null_handle")) { *handle = NULL; return SUCCESS; }
  handle_t* made = is("same_handle") ? &only : calloc(1, sizeof *made);
  made->magic = 0x1234567;
  *handle = made;
  return SUCCESS;
}

API int hipdnnEnginePluginDestroy(void* handle) {
  HANDLE(handle);
  misbehave("destroy");
  ((handle_t*)handle)->magic = 0;
  if (handle != &only) free(handle);
  return SUCCESS;
}

API int hipdnnEnginePluginSetStream(void* handle, void* stream) {
  HANDLE(handle);
  ((handle_t*)handle)->stream = stream;
  return SUCCESS;
}

API int hipdnnEnginePluginGetApplicableEngineIds(void* handle, const data_t* graph, int64_t* ids, uint32_t most,
                                                 uint32_t* n) {
  HANDLE(handle);
  misbehave("applicable");
  graph_t* g = NULL;
  const char* why = read_graph(graph, &g);
  release(g);
  *n = why ? 0 : 1;
  if (is("applicable_fails") || is("null_error")) return fail(INTERNAL_ERROR, "no mood for graphs");
  if (why) say(why);
  else if (most) ids[0] = is("strange_id") ? 77 : ENGINE_ID;
  if (is("too_many_ids")) *n = 99;
  return SUCCESS;
}

API int hipdnnEnginePluginGetEngineDetails(void* handle, int64_t id, const data_t* graph, data_t* details) {
  /* EngineDetails{engine_id, behavior_notes = [0]}, as hipDNN's own generator writes it. */
  static const uint8_t form[40] = {0x10, 0, 0, 0, 0, 0, 0x0a, 0, 0x10, 0, 0x08, 0, 0, 0, 0x04, 0, 0x0a, 0, 0, 0,
                                   0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
  HANDLE(handle);
  misbehave("details");
  (void)graph;
  if (is("null_details")) { details->ptr = NULL, details->size = 0; return SUCCESS; }
  uint8_t* made = malloc(sizeof form);
  memcpy(made, form, sizeof form);
  if (is("other_details")) id = 1;
  memcpy(made + 24, &id, 8);
  if (is("garbage_details")) memset(made, 0xA5, sizeof form);
  details->ptr = made, details->size = sizeof form;
  return SUCCESS;
}

API int hipdnnEnginePluginDestroyEngineDetails(void* handle, data_t* details) {
  HANDLE(handle);
  free((void*)details->ptr);
  details->ptr = NULL, details->size = 0;
  return SUCCESS;
}

API int hipdnnEnginePluginCreateExecutionContext(void* handle, const data_t* config, const data_t* graph, void** context) {
  HANDLE(handle);
  misbehave("build");
  if (long_of(root(config), 0) != ENGINE_ID) return fail(INVALID_VALUE, "the engine is another one");
  if (is("build_fails")) return fail(INTERNAL_ERROR, "the loops are tangled");
  if (is("null_context")) { *context = NULL; return SUCCESS; }
  graph_t* g = NULL;
  const char* why = read_graph(graph, &g);
  if (why) return fail(NOT_APPLICABLE, why);
  *context = g;
  return SUCCESS;
}

API int hipdnnEnginePluginDestroyExecutionContext(void* handle, void* context) {
  HANDLE(handle);
  release(context);
  return SUCCESS;
}

API int hipdnnEnginePluginGetWorkspaceSize(void* handle, const data_t* config, const data_t* graph, size_t* size) {
  HANDLE(handle);
  (void)config, (void)graph;
  *size = is("huge_workspace") ? SIZE_MAX : 0;
  return SUCCESS;
}

API int hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(void* handle, void* context, size_t* size) {
  HANDLE(handle);
  *size = ((graph_t*)context)->workspace;
  return SUCCESS;
}

#ifndef INCOMPLETE
API int hipdnnEnginePluginExecuteOpGraph(void* handle, void* context, void* workspace, const buffer_t* buffers,
                                         uint32_t n) {
  HANDLE(handle);
  misbehave("execute");
  if (is("execute_fails")) return fail(INTERNAL_ERROR, "a loop did not end");
  graph_t* g = context;
  if (g->workspace && !workspace) return fail(BAD_PARAM, "no workspace");
  for (uint32_t i = 0; i < g->tensors; ++i) {
    tensor_t* t = &g->tensor[i];
    t->memory = t->virtual ? (float*)((char*)workspace + t->offset) : NULL;
    for (uint32_t k = 0; k < n; ++k)
      if (buffers[k].uid == t->uid) t->memory = buffers[k].ptr;
    if (!t->memory && !t->constant) return fail(BAD_PARAM, "a tensor has no buffer");
    if ((uintptr_t)t->memory % 16) return fail(BAD_PARAM, "a buffer is not aligned to 16 bytes");
  }
  for (uint32_t i = 0; i < g->nodes; ++i) run_node(&g->node[i]);
  for (uint32_t i = 0; i < g->tensors && !strncmp(how, "writes_", 7); ++i) {
    tensor_t* t = &g->tensor[i];
    int input = !t->virtual;
    for (uint32_t k = 0; k < g->nodes; ++k) input &= g->node[k].out != t;
    if (is("writes_past") && !t->virtual && !input) t->memory[t->bytes / 4] = 1;
    if (is("writes_before") && !t->virtual && !input) t->memory[-1] = 1;
    if (is("writes_operands") && input) t->memory[0] += 1;
    if (is("writes_past_workspace") && t->virtual) t->memory[(g->workspace - t->offset) / 4] = 1;
  }
  return SUCCESS;
}
#endif

#if !defined(N25) && !defined(FIXED) && !defined(INCOMPLETE)
API int hipdnnEnginePluginExecuteOpGraphWithOverrides(void* handle, void* context, void* workspace,
                                                      const buffer_t* buffers, uint32_t n, uint32_t overrides,
                                                      const int64_t* uids, const uint32_t* lengths,
                                                      const int64_t* const* dims, const int64_t* const* strides) {
  graph_t* g = context;
  if (g->workspace) return fail(NOT_APPLICABLE, "virtual tensors do not change their shapes here");
  size_t bytes = g->tensors * sizeof *g->tensor;
  tensor_t* before = memcpy(malloc(bytes), g->tensor, bytes);
  for (uint32_t i = 0; i < overrides; ++i)
    for (uint32_t k = 0; k < g->tensors; ++k)
      if (g->tensor[k].uid == uids[i] && lengths[i] == (uint32_t)g->tensor[k].rank) {
        memcpy(g->tensor[k].dims, dims[i], 8 * lengths[i]);
        memcpy(g->tensor[k].strides, strides[i], 8 * lengths[i]);
      }
  int status = hipdnnEnginePluginExecuteOpGraph(handle, context, workspace, buffers, n);
  memcpy(g->tensor, before, bytes);
  free(before);
  return status;
}
#endif
