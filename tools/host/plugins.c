// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Libraries of plugins: loading, engines, handles, choice; see host.h. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

plugin_t plugin[MOST];
int plugins;
era_t era = NEW;

static char why[2300];
#define NO(...) return snprintf(why, sizeof why, __VA_ARGS__), why

const char* last_error_of(const plugin_t* p) {
  const char* text = NULL;
  p->GetLastErrorString(&text);
  return text ? text : "(null)";
}

int plugin_of(int64_t engine) {
  for (int i = 0; i < plugins; ++i)
    for (uint32_t k = 0; k < plugin[i].engines; ++k)
      if (plugin[i].ids[k] == engine) return i;
  return -1;
}

static int by_value(const void* a, const void* b) {
  int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

static int64_t hash(const char* name) {
  uint64_t value = 0xCBF29CE484222325u;
  for (; *name; ++name) value = (value ^ (unsigned char)*name) * 0x100000001B3u;
  return (int64_t)value;
}

/* The ids of a plugin, sorted; November 2025 gives up a plugin for one that is taken, later eras the engine. */
static const char* read_engines(plugin_t* p) {
  uint32_t count = 0, again = 0, kept = 0;
  if (getenv("HOST_UNLISTED")) return NULL; /* another call is to be the first that needs Python */
  if (p->GetAllEngineIds(NULL, 0, &count)) NO("unlisted %s", last_error_of(p));
  if (!count || count > MOST) NO("%u engines", count);
  if (p->GetAllEngineIds(p->ids, count, &again) || again != count) NO("%u engines, then %u", count, again);
  qsort(p->ids, count, sizeof *p->ids, by_value);
  for (uint32_t k = 0; k < count; ++k) {
    const char* name = NULL;
    int64_t id = p->ids[k];
    if (k && id == p->ids[k - 1]) NO("engine %lld twice", (long long)id);
    if (plugin_of(id) >= 0 && era == N25) NO("engine %lld is another plugin's", (long long)id);
    int status = p->GetEngineName ? p->GetEngineName(id, &name) : NOT_APPLICABLE;
    if (status && status != NOT_APPLICABLE) NO("GetEngineName: %s", last_error_of(p));
    if (plugin_of(id) < 0 && (status || (name && hash(name) == id))) p->ids[kept++] = id;
  }
  p->engines = kept;
  return NULL;
}

const char* plugin_load(const char* path, void (*sink)(int, const char*), int level) {
  static const struct { size_t at; const char* symbol; era_t since; int required; } calls[] = {
#define ROW(required, since, result, name, symbol, parameters) \
  {offsetof(plugin_t, name), "hipdnn" symbol, since, required},
      CALLS(ROW)
#undef ROW
  };
  plugin_t* p = &plugin[plugins];
  int type = 0;
  memset(p, 0, sizeof *p);
  if (plugins == MOST) NO("too many plugins");
  p->so = dlopen(path, RTLD_NOW | RTLD_LOCAL | (era == N25 ? RTLD_DEEPBIND : 0));
  if (!p->so) NO("%s", dlerror());
  for (size_t k = 0; k < sizeof calls / sizeof *calls; ++k) {
    void* found = calls[k].since <= era ? dlsym(p->so, calls[k].symbol) : NULL;
    if (!found && calls[k].required) NO("no symbol %s", calls[k].symbol);
    *(void**)((char*)p + calls[k].at) = found;
  }
  if (p->GetType(&type) || type != 1) NO("type %d", type);
  if (p->GetName(&p->name) || !p->name) NO("GetName: %s", last_error_of(p));
  if (p->GetVersion(&p->version) || !p->version) NO("GetVersion: %s", last_error_of(p));
  if (p->SetLoggingCallback && sink) p->SetLoggingCallback(sink);
  if (p->SetLogLevel && level >= 0) {
    int status = p->SetLogLevel(level);
    if (status && status != INVALID_VALUE) NO("SetLogLevel: %s", last_error_of(p));
  }
  p->api = "1.0.0";
  int major = 0, minor = 0, patch = 0;
  if (p->GetApiVersion && p->GetApiVersion(&p->api)) NO("GetApiVersion: %s", last_error_of(p));
  if (sscanf(p->api, "%d.%d.%d", &major, &minor, &patch) != 3 || major > 1) NO("API version %s", p->api);
  const char* bad = read_engines(p);
  if (!bad) ++plugins;
  return bad;
}

int create_handles(void** of) {
  for (int i = 0; i < plugins; ++i) {
    of[i] = NULL;
    int status = plugin[i].Create(&of[i]);
    for (int k = 0; k < i && !status && of[i]; ++k)
      if (of[k] == of[i]) of[i] = NULL; /* not to be told from another plugin's */
    if ((status || !of[i]) && era == N25) return status ? status : INTERNAL_ERROR;
    if (status) of[i] = NULL; /* goes on without it */
  }
  return SUCCESS;
}

int applicable(void** of, const data_t* graph, int64_t* ids, uint32_t most, uint32_t* count) {
  static const char* const first[] = {"MIOPEN_ENGINE", "ASM_SDPA_ENGINE", "ROCKE_ENGINE"};
  *count = 0;
  for (int i = 0; i < plugins; ++i) {
    const plugin_t* p = &plugin[i];
    int64_t found[MOST];
    uint32_t n = 0;
    if (!of[i]) continue;
    int status = p->GetApplicableEngineIds(of[i], graph, found, MOST, &n);
    if (status && era == N25) return status;
    if (status || n > MOST) continue;
    qsort(found, n, sizeof *found, by_value);
    for (uint32_t k = 0; k < n && *count < most; ++k)
      if (plugin_of(found[k]) == i) ids[(*count)++] = found[k];
  }
  uint32_t ranked = 0;
  for (size_t f = 0; f < sizeof first / sizeof *first; ++f)
    for (uint32_t k = ranked; k < *count; ++k)
      if (ids[k] == hash(first[f])) {
        int64_t id = ids[k];
        memmove(ids + ranked + 1, ids + ranked, (k - ranked) * sizeof *ids);
        ids[ranked++] = id;
      }
  return SUCCESS;
}

/* ------------------------------------------------------------------ descriptions of engines */

typedef struct { const uint8_t* data; size_t size; int broken; } reader_t;

static uint64_t get(reader_t* r, size_t at, size_t bytes) {
  uint64_t value = 0;
  if (at > r->size || r->size - at < bytes || at % bytes) r->broken = 1;
  else memcpy(&value, r->data + at, bytes);
  return value;
}

/* Where a field of a table is, 0 if it is absent. */
static size_t field(reader_t* r, size_t table, int slot) {
  size_t vtable = table - (size_t)(int32_t)get(r, table, 4);
  size_t at = 4 + 2 * (size_t)slot < get(r, vtable, 2) ? get(r, vtable + 4 + 2 * (size_t)slot, 2) : 0;
  return at ? table + at : 0;
}

static size_t ref(reader_t* r, size_t table, int slot) {
  size_t at = field(r, table, slot);
  return at ? at + get(r, at, 4) : 0;
}

int64_t engine_of(const data_t* config) {
  reader_t r = {config->ptr, config->size, 0};
  size_t id = field(&r, get(&r, 0, 4), 0);
  return id ? (int64_t)get(&r, id, 8) : 0;
}

const char* read_details(const data_t* details, int64_t engine, void (*knob)(const char*, int)) {
  enum { ENGINE, KNOBS, NOTES }; /* 3 is a name that nobody reads, 4 candidate_page */
  enum { KNOB_ID, DESCRIPTION, DEFAULT_TYPE, DEFAULT, CONSTRAINT_TYPE, CONSTRAINT };
  if (!details->ptr || !details->size) NO("no details");
  reader_t r = {details->ptr, details->size, 0};
  size_t root = get(&r, 0, 4), id = field(&r, root, ENGINE), knobs = 0, notes = 0;
  if (r.broken || !id || (int64_t)get(&r, id, 8) != engine) NO("details of another engine");
  if (era == N25) return NULL; /* reads no more */
  if ((notes = ref(&r, root, NOTES)))
    for (uint32_t k = 0, n = (uint32_t)get(&r, notes, 4); k < n && !r.broken; ++k)
      if (get(&r, notes + 4 + 4 * k, 4) > 4) NO("an unknown note");
  if ((knobs = ref(&r, root, KNOBS)))
    for (uint32_t k = 0, n = (uint32_t)get(&r, knobs, 4); k < n && !r.broken; ++k) {
      size_t at = knobs + 4 + 4 * k, item = at + get(&r, at, 4), name = ref(&r, item, KNOB_ID);
      size_t kind = field(&r, item, DEFAULT_TYPE), limits = field(&r, item, CONSTRAINT_TYPE);
      uint32_t length = name ? (uint32_t)get(&r, name, 4) : 0;
      int type = kind ? (int)get(&r, kind, 1) : 0;
      if (!length || get(&r, name + 4 + length, 1)) NO("a knob without a name");
      if (type < 1 || type > 3 || !ref(&r, item, DEFAULT)) NO("a knob without a value");
      if (limits && get(&r, limits, 1) && ((int)get(&r, limits, 1) != type || !ref(&r, item, CONSTRAINT)))
        NO("a knob whose limits are of another type");
      if (knob) knob((const char*)r.data + name + 4, type);
    }
  if (r.broken) NO("a damaged description");
  return NULL;
}
