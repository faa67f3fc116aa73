# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The offload pipeline as callers see it: ``outline`` and ``offload``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from ...graph_api.frozen import FrozenGraph
from ...jit.settings import settings
from ...jit.target import Target
from .pipeline import PIPELINE, Module, Options
from .program import Function, Remark
from .region import build_region

__all__ = [
    "Asked",
    "Outlined",
    "OutlinedFunction",
    "Region",
    "Rest",
    "module",
    "offload",
    "outline",
]

Source = str | bytes | Path


class Asked(TypedDict, total=False):
    """What `module`, `outline` and `offload` may be told.

    Attributes
    ----------
    whole_nodes : bool
        Whether ops of the same location, such as those of one ONNX node, are claimed together or
        not at all.
    min_ops : int
        Regions with fewer ops are not made.
    engine, policy : str, optional
        As of ``Graph.build``: a pinned engine, and who ranks the engines.
    compiles : bool
        Whether plans are made by the passes; otherwise when they are asked for.
    holds_weights : bool
        Whether graphs for a CPU have the module's weights as constants; so by default.
    """

    whole_nodes: bool
    min_ops: int
    compiles: bool
    holds_weights: bool
    engine: str | None
    policy: str | None


@dataclass(frozen=True, kw_only=True)
class Region:
    """Ops that are one hipDNN graph.

    Attributes
    ----------
    name : str
        ``hipdnn_graph_0``, ... over the module.
    graph : FrozenGraph
        Contiguous tensors of at least one dim; what it computes.
    inputs : tuple of int or None
        The graph's tensor for each operand; None for one that it does not read.
    outputs : tuple of int
        The graph's tensor for each result.
    operands, results : tuple of str
        Values by name: ``arg0`` of the function, ``hipdnn_graph_0#1`` of another region (its
        second result), ``rest_0#0`` of an op that is in no region, ``const_0`` of a constant
        tensor of the module.
    ops : tuple of str
        Names of the ops, in order.
    nodes : tuple of str
        Their locations, each once: names of ONNX or FX nodes, else line and column.
    """

    name: str
    graph: FrozenGraph
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    ops: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Rest:
    """An op that is in no region; values as of `Region`."""

    name: str
    op: str
    location: str
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OutlinedFunction:
    """A function whose supported ops are regions.

    Attributes
    ----------
    name : str
    arguments, returned : tuple of str
        Values by name, as of `Region`.
    steps : tuple of Region or Rest
        In an order in which they can be run.
    """

    name: str
    arguments: tuple[str, ...]
    returned: tuple[str, ...]
    steps: tuple[Region | Rest, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions, in order."""
        return tuple(step for step in self.steps if isinstance(step, Region))

    @property
    def rest(self) -> tuple[Rest, ...]:
        """The ops that are in no region, in order."""
        return tuple(step for step in self.steps if isinstance(step, Rest))


@dataclass(frozen=True, kw_only=True)
class Outlined:
    """A module after the steps a to d.

    Attributes
    ----------
    functions : tuple of OutlinedFunction
    declined : tuple of Remark
        Each op that is in no region: function, op, location, rule and reason.
    text : bytes
        The module, for what follows.
    """

    functions: tuple[OutlinedFunction, ...]
    declined: tuple[Remark, ...]
    text: bytes

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of all functions."""
        return tuple(region for function in self.functions for region in function.regions)


def module(
    source: Source,
    target: Target | str = "cpu",
    *,
    name: str = "the module",
    weights: Collection[int] = (),
    **asked: Unpack[Asked],
) -> Module:
    """Return a module to run passes on (``.run(*names)``).

    ``weights`` are the arguments of its function, by number, that are the same at each call;
    other parameters are those of `outline`.
    """
    if isinstance(source, Path):
        source, name = source.read_bytes(), str(source)
    return Module(
        source.encode() if isinstance(source, str) else source,
        Options(target=Target.parse(target), settings=settings(), **asked),
        name=name,
        weights=weights,
    )


def outline(
    source: Source,
    target: Target | str = "cpu",
    *,
    name: str = "the module",
    **asked: Unpack[Asked],
) -> Outlined:
    """Return the regions of a module that engines serve, without compiling anything.

    Parameters
    ----------
    source : str, bytes or path
        MLIR text: functions of value tensors in the torch dialect, or of ``torch.operator``
        ``onnx.*``.  Weights are arguments of the function, so that they need not be text.
    target : Target or str
    name : str
        What messages call the module.
    **asked
        As of `Asked`.

    Returns
    -------
    Outlined

    Raises
    ------
    FormatError
        If the text cannot be read, with line and column.
    CompileError
        If MLIR crashes on it.
    """
    found = module(source, target, name=name, **asked)
    found.run(*PIPELINE[: PIPELINE.index("hipdnn-graph-to-executable")])
    functions, regions, _ = found.functions()
    bodies = iter(regions)
    made, count = [], 0
    for function in functions:
        steps: list[Region | Rest] = []
        names = {value: f"arg{i}" for i, value in enumerate(function.arguments)}
        for value, record in enumerate(function.values):
            if record.constant:
                names[value] = f"const_{len(names) - len(function.arguments)}"
        for op in function.ops:
            is_region = op.name == "hipdnn.graph"
            label = f"hipdnn_graph_{count}" if is_region else f"rest_{op.place}"
            names.update({value: f"{label}#{i}" for i, value in enumerate(op.results)})
            operands = tuple(names[value] for value in op.reads)
            results = tuple(names[value] for value in op.results)
            if is_region:
                steps.append(_region(label, next(bodies), operands, results))
                count += 1
                continue
            steps.append(
                Rest(
                    name=label,
                    op=op.name,
                    location=op.location,
                    operands=operands,
                    results=results,
                )
            )
        made.append(
            OutlinedFunction(
                name=function.name,
                arguments=tuple(names[value] for value in function.arguments),
                returned=tuple(names[value] for value in function.returned),
                steps=tuple(steps),
            )
        )
    return Outlined(functions=tuple(made), declined=tuple(found.remarks), text=found.text)


def _region(
    name: str, body: Function, operands: tuple[str, ...], results: tuple[str, ...]
) -> Region:
    built = build_region(body, name)
    return Region(
        name=name,
        graph=built.graph,
        inputs=built.inputs,
        outputs=built.outputs,
        operands=operands,
        results=results,
        ops=tuple(op.name for op in body.ops),
        nodes=tuple(dict.fromkeys(op.location for op in body.ops if op.location)),
    )


def offload(
    source: Source,
    target: Target | str = "cpu",
    *,
    name: str = "the module",
    weights: Collection[int] = (),
    **asked: Unpack[Asked],
) -> Module:
    """Run the whole pipeline; ``.executor()`` then runs the module.

    Parameters are those of `module`, and what is raised is that of `outline`; plans are compiled,
    or found in the cache.  ``.remarks`` says why ops are in no region, ``.graphs`` holds the plans
    by name.

    Raises
    ------
    NotSupportedError
        If an op is neither offloaded nor compiled by IREE.
    """
    return module(source, target, name=name, weights=weights, **asked).run(*PIPELINE)
