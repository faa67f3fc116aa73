# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of the JIT with the options that the settings give which hold at the call."""

from __future__ import annotations

from typing import Any

from hipdnn_iree.jit import pipeline, tuning
from hipdnn_iree.jit.compiler import client
from hipdnn_iree.jit.compiler import flags as compiler_flags
from hipdnn_iree.jit.compiler.pool import WorkerPool
from hipdnn_iree.jit.inspect import report
from hipdnn_iree.jit.options import BuildOptions, CacheOptions, CompileOptions, WorkerOptions
from hipdnn_iree.jit.settings import settings


def build() -> BuildOptions:
    return BuildOptions.of(settings())


def code() -> CompileOptions:
    return CompileOptions.of(settings())


def key_ingredients() -> dict[str, str]:
    return code().key_ingredients()


def compile_source(graph, target):
    return pipeline.compile_source(graph, target, build())


def dump(graph, target, folder):
    return pipeline.dump(graph, target, folder, build())


def cache_key(graph, target):
    return pipeline.cache_key(graph, target, code())


def flags(graph, target):
    return pipeline.flags(graph, target, code())


def store():
    return pipeline.store(CacheOptions.of(settings()))


def spec_for(target):
    return tuning.spec_for(target, code())


def target_flags(target, extra=()):
    return compiler_flags.target_flags(target, code(), extra)


def inspect_graph(graph, target, folder):
    return report.inspect_graph(graph, target, folder, build())


def default_compiler():
    return client.default_compiler(WorkerOptions.of(settings()))


class Compiler(client.Compiler):
    """A compiler with workers of its own, under the settings that hold at each call."""

    def __init__(self, jobs: int = 1) -> None:
        self.pool = WorkerPool(jobs)

    @property
    def options(self) -> Any:
        return WorkerOptions.of(settings())
