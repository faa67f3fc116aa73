# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules with extents that are only known at execution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph_api.errors import NotSupportedError, SettingError
from ...jit.lru import LruCache
from ..plan import Plan
from .executor import Executor
from .finished import Program, planned
from .pipeline import PIPELINE, Module
from .program import Function
from .sizes import Dims, Programs, family, sizes_of

__all__ = ["SizedExecutor", "fix_sizes", "sized"]

_KEPT_SIZES = 64
_TENSOR = re.compile(r"!torch\.vtensor<\[([\d,?]*)\],\w+>")


class SizedExecutor:
    """Runs a function whose arguments have extents that are known at execution.

    Parameters
    ----------
    dims : sequence of sequence of int or str
        Of each input: extents, and the names of those that are open.
    programs : Programs
    device_id : int, optional
        As of `Executor`.

    Attributes
    ----------
    dims, programs
    """

    def __init__(
        self, dims: Sequence[Dims], programs: Programs, device_id: int | None = None
    ) -> None:
        self.dims, self.programs = tuple(map(tuple, dims)), programs
        self._device_id = device_id
        self._executors: LruCache[Executor] = LruCache(_KEPT_SIZES)

    def at(self, sizes: Mapping[str, int]) -> Executor:
        """Return what runs the function at some sizes; the last 64 are kept.

        Raises
        ------
        HipdnnIreeError
            If something is not served at these sizes.
        """
        key = tuple(sorted(sizes.items()))
        return self._executors.get(key, lambda: Executor(*self.programs.at(sizes), self._device_id))

    def run(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Run on arrays, whose shapes tell the sizes, and return the results.

        Raises
        ------
        BindError
            For inputs that do not fit.
        """
        sizes = sizes_of(self.dims, [np.shape(one) for one in inputs])
        return self.at(sizes).run(*inputs)


def sized(
    module: Module,
    *,
    function: str | None = None,
    dims: Mapping[int, Dims] | None = None,
    buckets: Sequence[int] = (),
) -> SizedExecutor:
    """Return what runs a function with ``?`` among the dims of its arguments.

    Parameters
    ----------
    module : Module
        In the torch dialect or of ONNX ops, no pass run yet (`api.module`).
    function : str, optional
        Which function; the only one when not given.
    dims : mapping of int to sequence of int or str, optional
        Names of open dims, by the number of the argument.  By default all that come first are
        one, ``batch``, and others are named by argument and axis: ``arg0_1``.
    buckets : sequence of int
        Sizes that others are rounded up to, where graphs allow it.

    Raises
    ------
    NotSupportedError
        If there is no such function.
    FormatError
        If the text cannot be read.
    """
    first, *rest = PIPELINE
    module.run(first)
    text, options = module.text, module.options
    chosen = _function(module.functions()[0], function)
    named = _dims(chosen, dims or {})

    def at(sizes: Mapping[str, int], compiles: bool) -> Module:
        made = Module(text, replace(options, compiles=compiles), name=module.name)
        made.then("fix-sizes", function=chosen.name, dims=_fixed(named, sizes))
        return made.run(*rest)

    def whole(sizes: Mapping[str, int]) -> tuple[Program, dict[str, Plan]]:
        made = at(sizes, True)
        program = planned(made.program(chosen.name))
        return program, {name: made.graphs[name].plan for name in program.graphs}

    names = dict.fromkeys(_names(one for one in named if one))
    every = family(lambda sizes: at(sizes, False).program(chosen.name), tuple(names))
    return SizedExecutor(
        [one or () for one in named],
        Programs(whole, every and every.prepared(options.build, buckets)),
        None if options.target.is_cpu else 0,
    )


def fix_sizes(module: Module, sizes: Mapping[str, int]) -> Module:
    """Give open dims of the arguments of all functions a size, by the names that `sized` has.

    Raises
    ------
    SettingError
        For a name that no open dim has, or an open dim without a size.
    FormatError
        If the text cannot be read.
    """
    module.run(PIPELINE[0])
    named = {one.name: _dims(one, {}) for one in module.functions()[0]}
    known = dict.fromkeys(_names(dims for one in named.values() for dims in one if dims))
    if known.keys() != sizes.keys():
        got, wanted = ", ".join(sizes) or "no sizes", ", ".join(known) or "none: no dim is open"
        raise SettingError(f"{module.name}: got sizes of {got}; wanted {wanted}")
    for name, dims in named.items():
        module.then("fix-sizes", function=name, dims=_fixed(dims, sizes))
    return module


def _dims(function: Function, given: Mapping[int, Dims]) -> list[Dims | None]:
    return [
        given.get(k) or _named(k, function.values[value].text)
        for k, value in enumerate(function.arguments)
    ]


def _names(dims: Iterable[Dims]) -> list[str]:
    return [name for one in dims for name in one if isinstance(name, str)]


def _fixed(dims: Sequence[Dims | None], sizes: Mapping[str, int]) -> list[list[int] | None]:
    return [
        one if one is None else [sizes[n] if isinstance(n, str) else n for n in one] for one in dims
    ]


def _function(functions: Sequence[Function], wanted: str | None) -> Function:
    found = [one for one in functions if wanted in (None, one.name)]
    if len(found) != 1:
        have = ", ".join(one.name for one in functions) or "none"
        raise NotSupportedError(f"got functions {have}; wanted one, or the name of one")
    return found[0]


def _named(k: int, text: str) -> tuple[int | str, ...] | None:
    found = _TENSOR.fullmatch(text)
    if found is None:
        return None
    return tuple(
        int(extent) if extent != "?" else "batch" if axis == 0 else f"arg{k}_{axis}"
        for axis, extent in enumerate(found[1].split(","))
        if extent
    )
