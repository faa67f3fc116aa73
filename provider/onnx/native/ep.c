// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* The execution provider for ONNX Runtime: C structures whose cold functions are Python.
 *
 * ONNX Runtime gives its functions as tables, which are used by index (provider/onnx/abi.py lists
 * those that Python calls).  Every structure declares API version 23, so that a later ONNX Runtime
 * reads no member that is not here.  The interpreter is found, or started, by CreateEpFactories
 * (`python_host.h`); Compute alone does its work here: it fetches the addresses and makes one call.
 *
 * Nothing but statuses leaves: none with the code EP_FAIL, after which ONNX Runtime would quietly
 * run the model on its own provider, and no exception.
 */
#define LIBRARY "the execution provider"
#define LOGGER "hipdnn_iree.onnx"
#define INSTALL "hipdnn-iree onnx install"
#define ENTRY "hipdnn_iree.provider.onnx.entry"
#define TABLE_VERSION 2 /* raise it with every change of struct table */

/* OrtErrorCode; the host's library has two names of its own for what it reports. */
enum status {
  SUCCESS, INTERNAL_ERROR, INVALID_ARGUMENT, EP_FAIL = 11, LAST = 14, ALLOC_FAILED = INTERNAL_ERROR
};

#include "../../native/python_host.h"
#include "../../native/small_stacks.h"

#include <stdbool.h>

#define API_VERSION 23
#define VENDOR "AMD"
#define VENDOR_ID 0x1002
#define MOST_VALUES 4096 /* inputs and outputs of a fused node */
#define MOST_DIMS 16 /* of an input whose shape is known at execution */

typedef struct status_object Status;
typedef void* const* functions; /* a table of ONNX Runtime */
typedef struct { functions (*GetApi)(uint32_t); const char* (*GetVersionString)(void); } base;

struct factory; struct ep; struct node; struct allocator; struct transfer; struct stream; struct event;

/* ------------------------------------------------------------------ the table that Python fills */

/* X(name, how PyObject_CallFunction takes the parameters: pointers as ssize_t) */
#define FORWARDED(X) \
  X(create_factory, "nnns") \
  X(release_factory, "n") \
  X(supported_devices, "nnnnnn") \
  X(create_ep, "nnnnnn") \
  X(release_ep, "n") \
  X(capability, "nnn") \
  X(compile, "nnnnnn") \
  X(release_nodes, "nn") \
  X(create_allocator, "nnnn") \
  X(allocate, "nnnn") \
  X(release, "nnn") \
  X(statistics, "nnn") \
  X(copy_tensors, "nnnnn") \
  X(create_stream, "nnn") \
  X(release_stream, "nn") \
  X(flush_stream, "nn") \
  X(create_event, "nnn") \
  X(release_event, "nn") \
  X(record_event, "nnn") \
  X(await_event, "nnn")

static struct node* make_node(functions api, object* call, int32_t inputs, int32_t outputs,
                              int32_t flags, const int64_t* shapes);
static struct table {
  HOST_FIELDS
#define FIELD(name, format) object* name;
  FORWARDED(FIELD)
  struct node* (*make_node)(functions, object*, int32_t, int32_t, int32_t, const int64_t*);
} table = {HOST_VALUES, .make_node = make_node};
static struct host* const host = (struct host*)&table;

/* ------------------------------------------------------------------ statuses */

static Status* status_of(functions api, int code) {
  if (!code) return NULL;
  return ((Status * (*)(int, const char*)) api[0])(code == EP_FAIL ? INTERNAL_ERROR : code, last_error);
}

#define CALL(name, api, format, ...) \
  ({ \
    atomic_fetch_add(&inflight, 1); \
    int code_; \
    if (__builtin_expect(!roomy(PLAN_STACK), 0)) { \
      code_ = elsewhere(&table.name, #name, "(" format ")", __VA_ARGS__); \
    } else if (!(code_ = enter())) { \
      int held_ = py.Ensure(); \
      code_ = answer(py.CallFunction(table.name, format, __VA_ARGS__), #name); \
      py.Release(held_); \
    } \
    atomic_fetch_sub(&inflight, 1); \
    code_; \
  })
#define N(value) ((ssize_t)(intptr_t)(value))

/* ------------------------------------------------------------------ Compute */

enum { DYNAMIC = 1, STREAMS = 2 };
struct node { /* OrtNodeComputeInfo */
  uint32_t version;
  Status* (*create_state)(struct node*, void* context, void** state);
  Status* (*compute)(struct node*, void* state, void* context);
  void (*release_state)(struct node*, void* state);
  functions api;
  object* call; /* which Python keeps until release_nodes */
  int32_t inputs, outputs, flags;
  int64_t shapes[]; /* of each output: rank, dims */
};

static Status* create_state(struct node* node, void* context, void** state) {
  (void)context;
  *state = node;
  return NULL;
}

static void release_state(struct node* node, void* state) { (void)node, (void)state; }

/* Fetch the addresses of outputs, then inputs; what ONNX Runtime refuses is its own status. */
static Status* addresses(struct node* node, void* context, intptr_t* out) {
  functions api = node->api;
  Status* (*input)(const void*, size_t, const void**) = api[90];
  Status* (*output)(void*, size_t, const int64_t*, size_t, void**) = api[91];
  Status* (*writable)(void*, void**) = api[51];
  Status* (*readable)(const void*, const void**) = api[378];
  Status* status;
  void* value;
  const void* given;
  const int64_t* shape = node->shapes;
  for (int32_t k = 0; k < node->outputs; ++k, shape += *shape + 1)
    if ((status = output(context, k, shape + 1, *shape, &value)) || (status = writable(value, (void**)out++)))
      return status;
  for (int32_t k = 0; k < node->inputs; ++k)
    if ((status = input(context, k, &given)) || (status = readable(given, (const void**)out++)))
      return status;
  if (node->flags & STREAMS) return ((Status * (*)(const void*, void**)) api[193])(context, (void**)out);
  return NULL;
}

/* Fetch the context, the addresses of inputs, and of each input its rank and dims: Python knows the
 * outputs' dims by those.  Through ctypes this took three times as long as the rest of a call. */
static Status* described(struct node* node, void* context, intptr_t* out, int32_t* count) {
  functions api = node->api;
  Status* (*input)(const void*, size_t, const void**) = api[90];
  Status* (*readable)(const void*, const void**) = api[378];
  Status* (*type_and_shape)(const void*, void**) = api[65];
  Status* (*rank)(const void*, size_t*) = api[61];
  Status* (*dims)(const void*, int64_t*, size_t) = api[62];
  void (*release)(void*) = api[99];
  intptr_t* const begin = out;
  int64_t* shape = (int64_t*)out + 1 + node->inputs;
  *out++ = (intptr_t)context;
  for (int32_t k = 0; k < node->inputs; ++k) {
    const void* given;
    void* info;
    size_t size = 0;
    Status* status = input(context, k, &given);
    if (status || (status = readable(given, (const void**)out++)) || (status = type_and_shape(given, &info)))
      return status;
    status = rank(info, &size);
    if (!status && size > MOST_DIMS)
      status = ((Status * (*)(int, const char*)) api[0])(INVALID_ARGUMENT, "an input has more than 16 dims");
    if (!status) status = dims(info, shape + 1, size);
    release(info);
    if (status) return status;
    *shape = (int64_t)size;
    shape += 1 + size;
  }
  *count = (int32_t)((intptr_t*)shape - begin);
  return NULL;
}

static Status* compute(struct node* node, void* state, void* context) {
  (void)state;
  bool dynamic = node->flags & DYNAMIC;
  int32_t count = node->inputs + node->outputs + !!(node->flags & STREAMS);
  intptr_t found[dynamic ? 1 + node->inputs * (2 + MOST_DIMS) : count]; /* of MOST_VALUES at most */
  Status* status = dynamic ? described(node, context, found, &count) : addresses(node, context, found);
  if (status) return status;
  atomic_fetch_add(&inflight, 1);
  int code = enter();
  if (!code) {
    int held = py.Ensure();
    object* numbers = py.NewTuple(count);
    for (int32_t k = 0; numbers && k < count; ++k) {
      object* number = py.FromSsize(found[k]);
      if (!number || py.SetItem(numbers, k, number)) { /* takes the reference */
        py.DecRef(numbers);
        numbers = NULL;
      }
    }
    code = answer(numbers ? py.CallObjects(node->call, numbers, NULL) : NULL, "Compute");
    if (numbers) py.DecRef(numbers);
    py.Release(held);
  }
  atomic_fetch_sub(&inflight, 1);
  return status_of(node->api, code);
}

static struct node* make_node(functions api, object* call, int32_t inputs, int32_t outputs,
                              int32_t flags, const int64_t* shapes) {
  size_t size = 0;
  if (inputs + outputs > MOST_VALUES) return NULL;
  for (int32_t k = 0; k < outputs; ++k) size += shapes[size] + 1;
  struct node* node = malloc(sizeof *node + size * sizeof *shapes);
  if (!node) return NULL;
  *node = (struct node){API_VERSION, create_state, compute, release_state, api, call, inputs, outputs, flags};
  memcpy(node->shapes, shapes, size * sizeof *shapes);
  return node;
}

/* ------------------------------------------------------------------ a session's provider */

struct ep { /* OrtEp */
  uint32_t version;
  const char* (*name)(const struct ep*);
  Status* (*capability)(struct ep*, const void* graph, void* info);
  Status* (*compile)(struct ep*, const void** graphs, const void** nodes, size_t count, struct node** out, void** contexts);
  void (*release_nodes)(struct ep*, struct node** nodes, size_t count);
  void* unset[8]; /* preferred layout ... GetCompiledModelCompatibilityInfo */
  struct factory* factory;
  functions api;
};

struct factory { /* OrtEpFactory */
  uint32_t version;
  const char* (*name)(const struct factory*);
  const char* (*vendor)(const struct factory*);
  Status* (*devices)(struct factory*, const void* const* devices, size_t count, void** out, size_t most, size_t* found);
  Status* (*create_ep)(struct factory*, const void* const* devices, const void* const* metadata, size_t count,
                       const void* options, const void* logger, struct ep** out);
  void (*release_ep)(struct factory*, struct ep*);
  uint32_t (*vendor_id)(const struct factory*);
  const char* (*package)(const struct factory*);
  void* compatibility;
  Status* (*create_allocator)(struct factory*, const void* info, const void* options, struct allocator** out);
  void (*release_allocator)(struct factory*, struct allocator*);
  Status* (*create_transfer)(struct factory*, struct transfer** out);
  bool (*stream_aware)(const struct factory*);
  Status* (*create_stream)(struct factory*, const void* device, const void* options, struct stream** out);
  functions api, ep_api;
  char* own_name;
  uint64_t gpus; /* bit k: HIP's device k has been offered; set by Python */
  atomic_int users; /* ONNX Runtime, and what was made of it: sessions may outlive a registration */
};

static void hold(struct factory* factory) { atomic_fetch_add(&factory->users, 1); }

static void drop(struct factory* factory) {
  if (atomic_fetch_sub(&factory->users, 1) > 1) return;
  CALL(release_factory, factory->api, "n", N(factory)); /* of no concern to the host */
  free(factory->own_name);
  free(factory);
}

static const char* ep_name(const struct ep* ep) { return ep->factory->own_name; }

static Status* ep_capability(struct ep* ep, const void* graph, void* info) {
  return status_of(ep->api, CALL(capability, ep->api, "nnn", N(ep), N(graph), N(info)));
}

static Status* ep_compile(struct ep* ep, const void** graphs, const void** nodes, size_t count, struct node** out, void** contexts) {
  return status_of(ep->api, CALL(compile, ep->api, "nnnnnn", N(ep), N(graphs), N(nodes), (ssize_t)count, N(out), N(contexts)));
}

static void ep_release_nodes(struct ep* ep, struct node** nodes, size_t count) {
  (void)ep;
  CALL(release_nodes, ep->api, "nn", N(nodes), (ssize_t)count);
  for (size_t k = 0; k < count; ++k) free(nodes[k]);
}

/* ------------------------------------------------------------------ memory */

struct allocator { /* OrtAllocator */
  uint32_t version;
  void* (*alloc)(struct allocator*, size_t);
  void (*free)(struct allocator*, void*);
  const void* (*info)(const struct allocator*);
  void* (*reserve)(struct allocator*, size_t);
  Status* (*statistics)(const struct allocator*, void** out);
  void* on_stream;
  struct factory* factory;
  const void* memory; /* the factory's description of it */
  int64_t device;
};

static void* allocator_alloc(struct allocator* it, size_t size) {
  void* found = NULL;
  if (!size) return NULL;
  return CALL(allocate, it->factory->api, "nnnn", N(it->factory), (ssize_t)it->device, (ssize_t)size, N(&found)) ? NULL : found;
}

static void allocator_free(struct allocator* it, void* memory) {
  if (memory) CALL(release, it->factory->api, "nnn", N(it->factory), (ssize_t)it->device, N(memory));
}

static const void* allocator_info(const struct allocator* it) { return it->memory; }

static Status* allocator_statistics(const struct allocator* it, void** out) {
  *out = NULL;
  return status_of(it->factory->api, CALL(statistics, it->factory->api, "nnn", N(it->factory), (ssize_t)it->device, N(out)));
}

static Status* factory_create_allocator(struct factory* factory, const void* info, const void* options, struct allocator** out) {
  (void)options;
  *out = NULL; /* for memory that is not a GPU's: ONNX Runtime's own */
  struct allocator made = {API_VERSION, allocator_alloc, allocator_free, allocator_info, allocator_alloc,
                           allocator_statistics, NULL, factory, NULL, 0};
  int code = CALL(create_allocator, factory->api, "nnnn", N(factory), N(info), N(&made.memory), N(&made.device));
  if (code || !made.memory) return status_of(factory->api, code);
  if (!(*out = malloc(sizeof made))) return status_of(factory->api, fail(ALLOC_FAILED, "no memory for an allocator"));
  **out = made;
  hold(factory);
  return NULL;
}

static void factory_release_allocator(struct factory* factory, struct allocator* allocator) {
  free(allocator);
  drop(factory);
}

struct transfer { /* OrtDataTransferImpl */
  uint32_t version;
  void (*release)(struct transfer*);
  bool (*can_copy)(const struct transfer*, const void* from, const void* to);
  Status* (*copy)(struct transfer*, const void** from, void** to, void** streams, size_t count);
  struct factory* factory;
};

static void transfer_release(struct transfer* it) {
  drop(it->factory);
  free(it);
}

enum { CPU_MEMORY, GPU_MEMORY };

/* Whether memory is that of a GPU which this factory has offered. */
static bool is_ours(const struct factory* factory, const void* device) {
  functions api = factory->ep_api;
  int type = ((int (*)(const void*))api[9])(device), kind = ((int (*)(const void*))api[10])(device);
  uint32_t vendor = ((uint32_t(*)(const void*))api[11])(device), id = ((uint32_t(*)(const void*))api[12])(device);
  return type == GPU_MEMORY && !kind && vendor == VENDOR_ID && id < 64 && (factory->gpus >> id & 1);
}

static bool transfer_can_copy(const struct transfer* it, const void* from, const void* to) {
  int (*type)(const void*) = it->factory->ep_api[9];
  bool source = is_ours(it->factory, from), target = is_ours(it->factory, to);
  return (source && (target || type(to) == CPU_MEMORY)) || (target && type(from) == CPU_MEMORY);
}

static Status* transfer_copy(struct transfer* it, const void** from, void** to, void** streams, size_t count) {
  functions api = it->factory->api;
  return status_of(api, CALL(copy_tensors, api, "nnnnn", N(it->factory), N(from), N(to), N(streams), (ssize_t)count));
}

static Status* factory_create_transfer(struct factory* factory, struct transfer** out) {
  *out = NULL;
  if (!factory->gpus) return NULL;
  if (!(*out = malloc(sizeof **out))) return status_of(factory->api, fail(ALLOC_FAILED, "no memory for a data transfer"));
  **out = (struct transfer){API_VERSION, transfer_release, transfer_can_copy, transfer_copy, factory};
  hold(factory);
  return NULL;
}

/* ------------------------------------------------------------------ streams */

struct event { /* OrtSyncNotificationImpl */
  uint32_t version;
  void (*release)(struct event*);
  Status* (*activate)(struct event*);
  Status* (*wait_on_device)(struct event*, void* consumer);
  Status* (*wait_on_host)(struct event*);
  struct factory* factory;
  void *stream, *handle;
};

struct stream { /* OrtSyncStreamImpl */
  uint32_t version;
  void (*release)(struct stream*);
  void* (*handle)(struct stream*);
  Status* (*create_event)(struct stream*, struct event** out);
  Status* (*flush)(struct stream*);
  Status* (*end_of_run)(struct stream*);
  struct factory* factory;
  void* own;
};

static void event_release(struct event* it) {
  CALL(release_event, it->factory->api, "nn", N(it->factory), N(it->handle));
  drop(it->factory);
  free(it);
}

static Status* event_activate(struct event* it) {
  functions api = it->factory->api;
  return status_of(api, CALL(record_event, api, "nnn", N(it->factory), N(it->handle), N(it->stream)));
}

static Status* event_wait_on_device(struct event* it, void* consumer) {
  functions api = it->factory->api;
  const struct stream* (*impl)(const void*) = it->factory->ep_api[13];
  const struct stream* other = impl(consumer);
  return status_of(api, CALL(await_event, api, "nnn", N(it->factory), N(it->handle), N(other ? other->own : NULL)));
}

static Status* event_wait_on_host(struct event* it) {
  functions api = it->factory->api;
  return status_of(api, CALL(await_event, api, "nnn", N(it->factory), N(it->handle), (ssize_t)-1));
}

static void stream_release(struct stream* it) {
  CALL(release_stream, it->factory->api, "nn", N(it->factory), N(it->own));
  drop(it->factory);
  free(it);
}

static void* stream_handle(struct stream* it) { return it->own; }

static Status* stream_create_event(struct stream* it, struct event** out) {
  functions api = it->factory->api;
  struct event made = {API_VERSION, event_release, event_activate, event_wait_on_device, event_wait_on_host,
                       it->factory, it->own, NULL};
  *out = NULL;
  int code = CALL(create_event, api, "nnn", N(it->factory), N(it->own), N(&made.handle));
  if (!code && !(*out = malloc(sizeof made))) code = fail(ALLOC_FAILED, "no memory for an event");
  if (*out) **out = made, hold(made.factory);
  return status_of(api, code);
}

static Status* stream_flush(struct stream* it) {
  functions api = it->factory->api;
  return status_of(api, CALL(flush_stream, api, "nn", N(it->factory), N(it->own)));
}

static bool factory_stream_aware(const struct factory* factory) { return factory->gpus; }

static Status* factory_create_stream(struct factory* factory, const void* device, const void* options, struct stream** out) {
  (void)options;
  functions api = factory->api;
  *out = NULL;
  if (!is_ours(factory, device)) return NULL;
  uint32_t id = ((uint32_t(*)(const void*))factory->ep_api[12])(device);
  struct stream made = {API_VERSION, stream_release, stream_handle, stream_create_event, stream_flush,
                        stream_flush, factory, NULL};
  int code = CALL(create_stream, api, "nnn", N(factory), (ssize_t)id, N(&made.own));
  if (!code && !(*out = malloc(sizeof made))) code = fail(ALLOC_FAILED, "no memory for a stream");
  if (*out) **out = made, hold(factory);
  return status_of(api, code);
}

/* ------------------------------------------------------------------ the factory */

static const char* factory_name(const struct factory* factory) { return factory->own_name; }
static const char* factory_vendor(const struct factory* factory) { return (void)factory, VENDOR; }
static uint32_t factory_vendor_id(const struct factory* factory) { return (void)factory, VENDOR_ID; }
static const char* factory_package(const struct factory* factory) { return (void)factory, LIBRARY_VERSION; }

static Status* factory_devices(struct factory* factory, const void* const* devices, size_t count, void** out, size_t most, size_t* found) {
  *found = 0;
  int code = CALL(supported_devices, factory->api, "nnnnnn", N(factory), N(devices), (ssize_t)count, N(out),
                  (ssize_t)most, N(found));
  return status_of(factory->api, code);
}

static Status* factory_create_ep(struct factory* factory, const void* const* devices, const void* const* metadata, size_t count,
                                 const void* options, const void* logger, struct ep** out) {
  (void)metadata;
  *out = NULL;
  struct ep* ep = calloc(1, sizeof *ep);
  if (!ep) return status_of(factory->api, fail(ALLOC_FAILED, "no memory for a provider"));
  *ep = (struct ep){API_VERSION, ep_name, ep_capability, ep_compile, ep_release_nodes, {NULL}, factory, factory->api};
  int code = CALL(create_ep, factory->api, "nnnnnn", N(factory), N(ep), N(devices), (ssize_t)count, N(options), N(logger));
  if (code) free(ep);
  else *out = ep, hold(factory);
  return status_of(factory->api, code);
}

static void factory_release_ep(struct factory* factory, struct ep* ep) {
  if (!ep) return;
  CALL(release_ep, factory->api, "n", N(ep));
  free(ep);
  drop(factory);
}

/* Functions of ONNX Runtime that tell a table of another layout from the one that is known. */
static const char* unfit(functions api) {
  const char* (*build)(void) = api[254];
  Status* (*create)(int, const char*) = api[0];
  int (*code)(const Status*) = api[1];
  const char* text = build();
  if (!text || strncmp(text, "ORT Build Info", 14)) return "its build information is not where it should be";
  Status* status = create(INVALID_ARGUMENT, "probe");
  int good = status && code(status) == INVALID_ARGUMENT;
  ((void (*)(Status*))api[93])(status);
  if (!good) return "its statuses are not where they should be";
  return ((void* (*)(void))api[317])() ? NULL : "it has no functions for execution providers";
}

API Status* CreateEpFactories(const char* name, const base* ort, const void* logger, struct factory** out, size_t most, size_t* count) {
  (void)logger;
  *count = 0;
  functions api = ort->GetApi(API_VERSION);
  if (!api) {
    api = ort->GetApi(1);
    fail(0, "ONNX Runtime %s is too old; wanted 1.23 or newer", ort->GetVersionString());
    return api ? status_of(api, INTERNAL_ERROR) : NULL;
  }
  const char* why = unfit(api);
  if (why) return status_of(api, fail(INTERNAL_ERROR, "ONNX Runtime %s is not known: %s", ort->GetVersionString(), why));
  if (!most) return status_of(api, fail(INVALID_ARGUMENT, "no room for a factory"));
  struct factory* made = calloc(1, sizeof *made);
  char* own_name = strdup(name ? name : "");
  if (!made || !own_name) {
    free(made), free(own_name);
    return status_of(api, fail(ALLOC_FAILED, "no memory for a factory"));
  }
  *made = (struct factory){
      API_VERSION, factory_name, factory_vendor, factory_devices, factory_create_ep, factory_release_ep,
      factory_vendor_id, factory_package, NULL, factory_create_allocator, factory_release_allocator,
      factory_create_transfer, factory_stream_aware, factory_create_stream, api,
      ((functions(*)(void))api[317])(), own_name, 0, 1};
  int code = CALL(create_factory, api, "nnns", N(made), N(api), N(ort->GetApi), own_name);
  if (code) {
    free(own_name), free(made);
    return status_of(api, code);
  }
  *out = made;
  *count = 1;
  return NULL;
}

API Status* ReleaseEpFactory(struct factory* factory) {
  if (factory) drop(factory);
  return NULL;
}
