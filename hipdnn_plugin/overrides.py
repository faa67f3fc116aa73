"""Executions with other dims and strides than the graph was built with (hipDNN's overrides)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..graph_api.errors import FormatError
from ..jit.settings import settings
from ..jit.settings_table import with_values
from ..jit.target import Target
from ..provider.plugin_abi import Status
from .abi import MOST_ITEMS, PluginError

if TYPE_CHECKING:
    from ..graph_api.specialise import ShapeLike
    from ..provider.plan import Plan, TensorKey
    from .program import Program

__all__ = ["Overrides", "Shapes", "read_shapes"]

_MAX_RANK = 64
Ints = tuple[int, ...]


class Shapes(NamedTuple):
    """Dims and strides of some tensors, in the order of the call."""

    uids: Ints
    dims: tuple[Ints, ...]
    strides: tuple[Ints, ...]


def read_shapes(
    count: int, uids: int | None, lengths: int | None, dims: int | None, strides: int | None
) -> Shapes:
    """Read the override arrays of a call; they are valid only while it runs.

    Raises
    ------
    PluginError
        If a pointer is null, a count or a rank is none, or a tensor is named twice.
    """
    if count > MOST_ITEMS:
        raise PluginError(Status.BAD_PARAM, f"{count} overrides; allowed: up to {MOST_ITEMS}")
    if not (uids and lengths and dims and strides):
        raise PluginError(Status.BAD_PARAM, f"null pointer for {count} overrides")
    ranks = (ctypes.c_uint32 * count).from_address(lengths)[:]
    if any(rank > _MAX_RANK for rank in ranks):
        raise PluginError(Status.BAD_PARAM, f"overrides of rank {max(ranks)}")
    found = []
    for rows in (dims, strides):
        pointers = (ctypes.c_void_p * count).from_address(rows)[:]
        if any(rank and not pointer for rank, pointer in zip(ranks, pointers, strict=True)):
            raise PluginError(Status.BAD_PARAM, "null pointer for the shape of an override")
        found.append(
            tuple(
                tuple((ctypes.c_int64 * rank).from_address(pointer or 0)[:]) if rank else ()
                for rank, pointer in zip(ranks, pointers, strict=True)
            )
        )
    named = tuple((ctypes.c_int64 * count).from_address(uids)[:])
    if len(set(named)) < count:
        twice = next(uid for uid in named if named.count(uid) > 1)
        raise PluginError(Status.BAD_PARAM, f"uid {twice} has two overrides")
    return Shapes(named, found[0], found[1])


class Overrides:
    """Makes the programs of a graph for other shapes.

    Parameters
    ----------
    settings : mapping
        Overrides of settings that the graph was built with.
    plan : Plan, optional
        The plan for the shapes of the graph.
    graph, target : str and Target, optional
        The graph in JSON, where there is no plan yet: it was loaded from bytes.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        plan: Plan | None = None,
        graph: str = "",
        target: Target | None = None,
    ) -> None:
        self.settings = dict(settings)
        self._given = plan
        self._graph = graph
        self._target = target

    @cached_property
    def graph(self) -> str:
        """The graph in JSON; empty if JSON cannot hold it."""
        if self._given is None:
            return self._graph
        from ..graph_api.formats.json.json_form import dumps

        try:
            return dumps(self._given.graph)
        except FormatError:
            return ""

    @cached_property
    def _plan(self) -> Plan:
        if self._given is not None:
            return self._given
        if not self._graph or self._target is None:
            raise PluginError(Status.NOT_APPLICABLE, "this plan was saved without its graph")
        from ..provider.engines.iree.iree_engine import IreeEngine
        from ..provider.graph_files import loads

        engine = IreeEngine(with_values(settings(), **self.settings))
        return engine.build(loads(self._graph.encode()).freeze(), self._target)

    def program(self, shapes: Shapes) -> Program:
        """Return the program for these shapes; it may have to be compiled.

        Raises
        ------
        GraphError
            If the graph breaks rules with these shapes, or they are of no input or output.
        NotSupportedError
            If the graph is not served with these shapes.
        CompileError
            If the compiler fails.
        """
        from .program import Program

        pairs = zip(shapes.dims, shapes.strides, strict=True)
        wanted: dict[TensorKey, ShapeLike] = dict(zip(shapes.uids, pairs, strict=True))
        return Program.of(self._plan.with_shapes(wanted), self.settings)
