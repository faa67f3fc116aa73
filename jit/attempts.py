# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is tried where the code that was planned does not compile, as a table, in order.

Each attempt is a set of `CompileOptions` of its own, so it has a code plan and a cache key of its
own.  What the user pinned stays in all of them: a strategy of an op, an optimisation level,
extra flags, a tuning spec.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..graph_api.errors import CompileError, TriedAttempt
from ..graph_api.frozen import FrozenGraph
from .mlir_source import MlirSource
from .ops import info
from .ops.strategy import NO_TILES
from .options import COPIES, BuildOptions, CompileOptions, WorkerOptions
from .outcomes import Outcome, tried
from .strategies import AUTO, PLAIN, choices, merged, pinned
from .target import Target

__all__ = ["ATTEMPTS", "FIRST", "Attempt", "Chain", "attempts", "retriable"]

FIRST = "as planned"
"""The name of the attempt that every source begins with."""


class Attempt(NamedTuple):
    """One way to compile a source.

    Attributes
    ----------
    name : str
        What it differs in from the first one: ``matmul=plain``, ``data tiling off``.
    options : CompileOptions
    """

    name: str
    options: CompileOptions


@dataclass(frozen=True)
class _Case:
    """What did not compile; ``op`` is that of the node which the compiler blamed, or empty."""

    graph: FrozenGraph | None
    target: Target
    options: CompileOptions
    op: str


Change = Callable[[_Case, CompileOptions], Iterator[Attempt]]


def _strategies(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield the other strategies of the op that is blamed; `_untiled` does without tiles."""
    for name in _allowed(case, case.op):
        if _without_tiles(case.op, name):
            continue
        text = f"{case.op}={name}"
        yield Attempt(
            text, replace(options, strategies=merged(options.strategies, {case.op: name}))
        )


def _without_tiles(op: str, strategy: str) -> bool:
    known = info(op).strategies
    return known is not None and any(
        NO_TILES in one.flags for one in known.table if one.name == strategy
    )


def _untiled(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield operands of products that are not repacked into tiles."""
    if case.target.is_cpu and options.data_tiling != "off":
        yield Attempt("data tiling off", replace(options, data_tiling="off"))


def _switched_off(name: str, flag: str, options: CompileOptions) -> Iterator[Attempt]:
    """Yield options without what a flag of the compiler switches on, unless a user has set it."""
    if not any(f.startswith(flag) for f in options.extra_flags):
        flags = (*options.extra_flags, f"{flag}=false")
        yield Attempt(name, replace(options, extra_flags=flags))


def _by_registers(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield operands of products that do not go straight to LDS, as they may on gfx950 (W-115)."""
    if case.target.arch == "gfx950":
        yield from _switched_off("operands by registers", "--iree-llvmgpu-use-direct-load", options)


def _unevaluated(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield constants that are worked out when the code runs.

    The compiler runs what makes them on its own CPU, which may lack what it wants (W-147).
    """
    if not case.target.is_cpu:
        yield from _switched_off("constants not evaluated", "--iree-opt-const-eval", options)


def _without_im2col(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield convolutions that the compiler does not make matmuls of (W-142).

    The matrix instructions are lost with it, so only the code of this graph has it.
    """
    blamed = (case.op,) if case.op else _ops(case)
    if case.target.is_gfx9 and any(op.startswith("conv_") for op in blamed):
        yield from _switched_off(
            "convolutions without im2col", "--iree-codegen-llvmgpu-use-igemm", options
        )


def _copies(what: str) -> Change:
    """Return the change that materialises the operands of some nodes."""

    def change(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
        if case.graph is not None:
            yield Attempt(f"copies of {COPIES[what]}", replace(options, copies=what))

    return change


def _widened(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield halves that are multiplied as float, where few rows of them do not compile.

    Instructions are missing for them (W-149), or LDS is (W-142).
    """
    if case.target.is_gfx9:
        yield from _copies("widened")(case, options)


def _dim_by_dim(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield sums over several dims one dim after the other, for gfx9 (W-128)."""
    if case.target.is_gfx9 and any(info(op).adds_up for op in _ops(case)):
        yield Attempt("sums dim by dim", replace(options, copies="sums"))


def _plain(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
    """Yield each op as it comes."""
    more = {op: PLAIN for op in _ops(case) if PLAIN in _allowed(case, op)}
    if more:
        strategies = merged(options.strategies, more)
        yield Attempt("plain strategies", replace(options, strategies=strategies))


def _level(level: str) -> Change:
    """Return the change to another optimisation level."""

    def change(case: _Case, options: CompileOptions) -> Iterator[Attempt]:
        if options.opt_level == CompileOptions.opt_level:
            yield Attempt(f"level {level}", replace(options, opt_level=level))

    return change


def _ops(case: _Case) -> Iterator[str]:
    if case.graph is not None:
        yield from dict.fromkeys(node.op.NAME for node in case.graph.nodes)


def _allowed(case: _Case, op: str) -> Iterator[str]:
    """Yield the strategies that may take the place of an op's own.

    Those that are for comparison only are right on the CPU, where random graphs are run with them;
    on GPUs some are compiled wrongly (W-070, W-071).
    """
    if case.graph is None or not op or pinned(case.options.strategies, op):
        return
    found = choices(case.graph, case.target).get(op)
    for name in found.names if found else ():
        if name not in (AUTO, found and found.default) and (
            case.target.is_cpu or (found and name in found.tried)
        ):
            yield name


ATTEMPTS: tuple[tuple[Change, ...], ...] = (
    (_strategies,),
    (_untiled,),
    (_by_registers,),
    (_dim_by_dim,),
    (_copies("products"),),
    (_untiled, _copies("products")),
    (_without_im2col,),
    (_unevaluated,),
    (_widened,),
    (_plain, _untiled, _copies("all")),
    (_plain, _untiled, _copies("all"), _level("O1")),
    (_plain, _untiled, _copies("all"), _level("O0")),
)
"""Changes that make an attempt, in the order of the attempts: the cheapest at run time first."""


def attempts(
    source: FrozenGraph | MlirSource, target: Target, options: CompileOptions, op: str = ""
) -> Iterator[Attempt]:
    """Yield what to try after the options failed; some may come to the same code.

    Parameters
    ----------
    source : FrozenGraph or MlirSource
    target : Target
    options : CompileOptions
        Those that failed: the user's.
    op : str
        The op of the node that the compiler blamed; empty where it blamed none.
    """
    graph = source if isinstance(source, FrozenGraph) else None
    case = _Case(graph, target, options, op)
    seen = {options}
    for changes in ATTEMPTS:
        found = [Attempt("", options)]
        for change in changes:
            # A change that does not apply here leaves the others.
            found = [
                Attempt(", ".join(filter(None, (one.name, more.name))), more.options)
                for one in found
                for more in (list(change(case, one.options)) or [Attempt("", one.options)])
            ]
        for one in found:
            if one.options not in seen:
                seen.add(one.options)
                yield one


RETRIED = ("compile", "crash", "timeout")
"""Stages of errors after which other attempts may do better."""


def retriable(error: CompileError) -> bool:
    """Return whether it says something about the code, not about the host or the request."""
    return error.stage in RETRIED and error.cause != "host"


class Chain:
    """The attempts after the planned way has failed, and what came of them.

    Together they have the time limit of one compilation; each may take half of what is left.

    Parameters
    ----------
    source : FrozenGraph or MlirSource
    target : Target
    options : BuildOptions
    error : CompileError
        Of the planned way.

    Attributes
    ----------
    tried : list of TriedAttempt
        What failed, the planned way first.
    """

    def __init__(
        self,
        source: FrozenGraph | MlirSource,
        target: Target,
        options: BuildOptions,
        error: CompileError,
    ) -> None:
        self._first, self._workers = error, options.workers
        nodes = source.nodes if isinstance(source, FrozenGraph) else ()
        self._op = next((n.op.NAME for n in nodes if n.label == error.node), "")
        self._todo = tuple(attempts(source, target, options.code, self._op))
        self.tried = [tried(FIRST, error)]

    def __iter__(self) -> Iterator[tuple[Attempt, WorkerOptions]]:
        """Yield each attempt, with the limits that it has."""
        end = time.monotonic() + self._workers.timeout_s
        for one in self._todo:
            left = end - time.monotonic()
            if left < _LEAST_S:
                said = f"not tried: the attempts have taken {self._workers.timeout_s:g} s"
                self.tried.append(TriedAttempt(one.name, "timeout", "time", said, ""))
                return
            yield one, replace(self._workers, timeout_s=left / 2)

    def failed(self, attempt: Attempt, error: CompileError) -> None:
        """Take note of an attempt that failed."""
        self.tried.append(tried(attempt.name, error))

    def outcome(self, attempt: Attempt | None) -> Outcome:
        """Return what is to be remembered; ``attempt`` is the one that worked."""
        limits = self._workers
        return Outcome(
            attempt=attempt.name if attempt else "",
            op=self._op,
            failed=tuple(self.tried),
            listed=tuple(one.name for one in self._todo),
            timeout_s=limits.timeout_s,
            memory=limits.memory,
        )

    def error(self) -> CompileError:
        """Return the error of the planned way, with all that was tried."""
        return self._first.with_tried(self.tried)


_LEAST_S = 0.5
"""Seconds below which an attempt is not begun."""
