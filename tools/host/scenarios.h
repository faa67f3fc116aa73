// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* What the scenarios share: they are the tests' programs, in processes of C and of Python. */
#pragma once
#define _GNU_SOURCE
#include "host.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

extern const char* library_path; /* several of them with ':' between */
extern int64_t engine;           /* of the first plugin */
extern data_t graph, config;     /* of the scenario */
extern atomic_int leaving;       /* main has returned: whatever a call answers now, it is no success */
extern atomic_int logged;

#define last_error() last_error_of(&P)
#define EXPECT(condition) \
  do { if (!(condition)) { while (atomic_load(&leaving)) usleep(1000); \
      printf("FAILED %s:%d %s [%s]\n", __FILE__, __LINE__, #condition, last_error()); \
      fflush(stdout); _exit(1); } } while (0)

double now(void);
long resident_kib(void);
void* load(int level); /* all libraries; returns the first */

typedef struct { void *handle, *context; data_t details; size_t size; zone_t space; } plan_t;
const char* make_plan(void* handle, plan_t* plan); /* of `graph`: NULL, or which call failed and how */
plan_t plan(void* handle);                         /* the same, where it must not fail */
void unplan(plan_t* plan);
int execute(const plan_t* plan, const job_t* job); /* with the plan's workspace */
void intact(const plan_t* plan, const job_t* job); /* no red zone was written, no operand */

typedef struct { const char* name; int (*body)(char**); int arguments; } scenario_t;
extern const scenario_t graph_scenarios[], order_scenarios[], life_scenarios[]; /* up to one without a name */
