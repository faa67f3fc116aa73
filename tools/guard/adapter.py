# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All that the guard takes from the package, and what has been renamed since the baseline.

Nothing else of this tool imports the package, apart from the public ``Graph`` in `graphs`.  When
modules of the package move, this file follows; what it returns stays the same.

The record speaks the language of its first version.  What is renamed in the package gets a line in
`STRATEGY_NAMES`, `KEY_NAMES` or `PROBLEM_NAMES`, so that records from before and after agree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import graphs
import hipdnn_iree

_REQUIRED = object()


def _find(name: str, *modules: str, missing: Any = _REQUIRED) -> Any:
    """Return what stands in the first of the modules that is there and has it, or ``missing``.

    The places where it stood before come after the place of today, so that an older checkout can
    be recorded as well, by its own Python (``git bisect``).
    """
    for module in modules:
        full = module if module.startswith("tools.") else f"hipdnn_iree.{module}"
        try:
            return getattr(import_module(full), name)
        except ModuleNotFoundError as error:
            if error.name is None or not full.startswith(error.name):
                raise  # not the place, but something that it imports
        except AttributeError:
            continue
    if missing is not _REQUIRED:
        return missing
    raise ImportError(f"{name} is in none of {', '.join(modules)}: tools/guard/adapter.py follows")


# The tools of the checkout that is recorded, which is not always the one of this file.
sys.path.insert(0, str(Path(hipdnn_iree.__file__).resolve().parent.parent))

at_sizes = _find("at_sizes", "graph_api.dynamic")
other_examples = _find("other_examples", "graph_api.dynamic")
support_problems = _find("problems", "jit.support")
versions = _find("versions", "jit.cache")
scope = _find("scope", "jit.settings", "jit.knobs")
settings = _find("settings", "jit.settings", "jit.knobs")
CompileOptions = _find("CompileOptions", "jit.options", missing=None)
choices = _find("choices", "jit.strategies", "jit.lowering.forms")
lower_graph = _find("lower_graph", "jit.lowering.module")
plan_code = _find("plan_code", "jit.code_plan", missing=None)
cache_key = _find("cache_key", "jit.pipeline")
flags = _find("flags", "jit.pipeline")
Target = _find("Target", "jit.target")
sample_problems = _find("sample_problems", "provider.sweep.samples", "provider.reference")
random_graph = _find(
    "random_graph", "provider.sweep.fuzz.random_graphs", "provider.survey.random_graphs"
)

# What is chosen for the CPU depends on its caches and vectors: the record's is this one everywhere.
_CPU = "cpu:znver5"

# Baseline -> now.
STRATEGY_NAMES: dict[str, dict[str, str]] = {
    "conv_dgrad": {"scattered": "gemm_col2im"},
    "conv_fprop": {"gathered": "im2col_gemm", "shifted": "row_im2col", "taps": "shifted_sum"},
    "conv_wgrad": {"products": "gemm"},
    "matmul": {"products": "gemm"},
}
KEY_NAMES: dict[str, str] = {"knob:compiler.forms": "knob:compiler.strategies"}
PROBLEM_NAMES: dict[str, str] = {}  # without the data type

# Ingredients that are not compared: what says that sources or versions changed, and what came
# later than the baseline and adds nothing that the others do not say.
KEY_IGNORED = frozenset({"lowering", "plan", *versions()})

_RANDOM = 400
_FORMS = "knob:compiler.forms"
_SETTING = "compiler_strategies" if plan_code else "compiler_forms"


@dataclass(frozen=True)
class Variant:
    """One way to compile a graph: strategies by op, and options that are not the default.

    Attributes
    ----------
    name : str
        Empty for what is chosen by default, else what differs, in the words of the baseline.
    """

    name: str = ""
    strategies: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def problems() -> dict[str, Callable[[], Any]]:
    """Return every problem by name, each as a function that returns its frozen graph."""
    found: dict[str, Callable[[], Any]] = {}
    old = {now: before for before, now in PROBLEM_NAMES.items()}
    for sample in sample_problems():
        name = old.get(sample.name, sample.name)
        for data_type in sample.dtypes:
            found[f"{name} {data_type.json}"] = partial(_sample, sample, data_type)
    for seed in range(1, _RANDOM + 1):
        found[f"random {seed}"] = partial(_random, seed)
    for name, build in graphs.sized().items():
        found[f"size.{name}"] = partial(_frozen, build)
    for name, build in graphs.dynamic().items():
        found[f"dynamic.{name}"] = partial(_frozen, build)
        # Code for all sizes may not depend on the size that stands for them.
        for i in range(2):
            found[f"dynamic.{name} other{i}"] = partial(_other, build, i)
        # What a plan with buckets compiles.
        for size in (1, 33):
            found[f"dynamic.{name} n={size}"] = partial(_at_size, build, size)
    return found


def _sample(sample: Any, data_type: Any) -> Any:
    return sample.graph(data_type).freeze()


def _random(seed: int) -> Any:
    return random_graph(seed).freeze()


def _frozen(build: Callable[[], Any]) -> Any:
    return build().freeze()


def _other(build: Callable[[], Any], i: int) -> Any:
    return list(other_examples(build().freeze()))[i]


def _at_size(build: Callable[[], Any], size: int) -> Any:
    return at_sizes(build().freeze(), {"n": size})


def targets(problem: str) -> tuple[str, ...]:
    """Return the targets of a problem; those that differ by flags alone only for some."""
    found = ("cpu", "gfx908", "gfx90a", "gfx942", "gfx950")
    if problem.startswith("size."):
        found += ("mi300x", "gfx942:sramecc+:xnack-", "cpu:x86-64-v3", "cuda:sm_80")
    return found


def digest(graph: Any) -> str:
    """Return the digest of a frozen graph."""
    return str(graph.digest)


def declines(graph: Any, target: str) -> list[tuple[str, str, str, str]]:
    """Return rule, node, port and the rest of the text of each reason not to serve a graph."""
    return [
        (p.rule, p.node, p.port, f"got {p.got}; wanted {p.wanted} ({p.hint})")
        for p in support_problems(graph, _target(target))
    ]


def offered(graph: Any, target: str) -> dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """Return, for each op with a choice, its strategies, the default, and those tuned over."""
    found = {}
    for op, choice in choices(graph, _target(target)).items():
        first = _first_names(op)
        found[op] = (
            tuple(first.get(n, n) for n in choice.names),
            first.get(choice.default, choice.default),
            tuple(first.get(n, n) for n in choice.tried),
        )
    return found


def variants(graph: Any, target: str, problem: str) -> Iterator[Variant]:
    """Yield the default, and one variant for each other strategy of each op of the graph."""
    yield Variant()
    ops = choices(graph, _target(target))
    for op, choice in ops.items():
        first = _first_names(op)
        for name in choice.names:
            if name != choice.default:
                yield Variant(f"{op}={first.get(name, name)}", ((op, name),))
    if len(ops) > 1:
        yield Variant("all=plain", (("all", "plain"),))
    if problem.startswith("size."):
        for option, value in (
            ("compiler_opt_level", "O1"),
            ("compiler_data_tiling", "off"),
            ("compiler_extra_flags", "--iree-opt-level=O2 --iree-extra=1"),
        ):
            yield Variant(f"{option}={value.replace(' ', ',')}", options={option: value})


@dataclass(frozen=True)
class Lowered:
    """What a graph becomes: IR or the class of the exception, flags, and ingredients of the key."""

    mlir: str
    error: str
    flags: tuple[str, ...]
    key: dict[str, str]


def lower(graph: Any, target: str, variant: Variant) -> Lowered:
    """Return all that decides the code of a graph."""
    where, wanted = _target(target), tuple(f"{op}={name}" for op, name in variant.strategies)
    try:
        with scope(**{_SETTING: ",".join(wanted)}, **variant.options):
            now = settings()
            options = CompileOptions.of(now) if CompileOptions else now
            told = tuple(flags(graph, where, options))
            key = _key(cache_key(graph, where, options).ingredients, graph, target, told, wanted)
            plan = plan_code(graph, where, wanted) if plan_code else wanted
            return Lowered(lower_graph(graph, where, plan), "", told, key)
    except Exception as error:  # which one is part of the record
        return Lowered("", type(error).__name__, (), {})


class _SharedContexts:
    """Stands for the class ``ir.Context`` and returns one context for some calls."""

    def __init__(self, fresh: Any, uses: int) -> None:
        self.fresh, self.uses = fresh, uses
        self.calls, self.context = 0, None

    def __call__(self) -> Any:
        if self.calls % self.uses == 0:
            self.context = self.fresh()
        self.calls += 1
        return self.context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fresh, name)


def share_contexts() -> None:
    """Let a hundred lowerings share an MLIR context: making them takes half of the time.

    The text does not depend on it, but a lowering that forgets to load a dialect may get away with
    it; ``--fresh`` is without.
    """
    from torch_mlir import ir

    ir.Context = _SharedContexts(ir.Context, 100)


def _key(
    ingredients: Mapping[str, Any],
    graph: Any,
    target: str,
    told: tuple[str, ...],
    wanted: Iterable[str],
) -> dict[str, str]:
    """Return the ingredients, with a word in place of what the record says elsewhere."""
    old = {now: before for before, now in KEY_NAMES.items()}
    found = {}
    for name, value in ingredients.items():
        first = old.get(name, name)
        if first in KEY_IGNORED or name in KEY_IGNORED:
            continue
        text = value if isinstance(value, str) else " ".join(value)
        if first == "graph" and text == digest(graph):
            text = "(digest)"
        elif first == "target" and text == target:
            text = "(target)"
        elif first == "cpu" and text:
            text = "(this machine's)"
        elif first == "flags" and tuple(value) == told:
            text = "(flags)"
        elif first == _FORMS and text == ",".join(wanted):
            text = "(as asked)"
        found[first] = text
    return found


def _first_names(op: str) -> dict[str, str]:
    return {now: before for before, now in STRATEGY_NAMES.get(op, {}).items()}


@cache
def _target(text: str) -> Any:
    return Target.parse(_CPU if text == "cpu" else text)
