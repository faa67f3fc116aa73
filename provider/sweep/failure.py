# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a graph fails, found in a process of its own; and whether another one fails so too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from ...graph_api.dtypes import DataType
from ...graph_api.formats.json.json_form import dumps
from ...graph_api.frozen import FrozenGraph
from .case_task import CaseTask, SweepOptions
from .process_pool import Ended, Limits, ProcessPool
from .row import FAILED
from .suite import Case, given

__all__ = ["Failure", "Judge"]

# What differs from graph to graph in a message of the compiler.
_VARIES = re.compile(r"0x[0-9a-f]+|%[\w#.]+|'[^']*'|\"[^\"]*\"|\d[\dx.e+-]*|<[^>]*>|/\S+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What became of a graph.

    Attributes
    ----------
    status : str
        As in a row.
    detail : str
        One line.
    """

    status: str
    detail: str

    @property
    def broken(self) -> bool:
        """Whether it is a failure at all."""
        return self.status in FAILED

    def like(self, other: Failure) -> bool:
        """Whether both fail alike: with one status, and one message but for numbers and names."""
        if self.status != other.status or not self.broken:
            return False
        said = self.status in ("compile-error", "crash")
        return not said or _kind(self.detail) == _kind(other.detail)


class Judge:
    """Builds and checks graphs in a process that may crash, hang or take all memory.

    A context manager.

    Parameters
    ----------
    engine, target : str
        As on the command line.
    options : SweepOptions
    limits : Limits
        Of each graph.
    """

    def __init__(self, engine: str, target: str, options: SweepOptions, limits: Limits) -> None:
        self._engine, self._target, self._options = engine, target, options
        self._pool = ProcessPool(f"{__package__}.case_worker", 1, limits)
        self.asked = 0

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.close()

    def __call__(self, graph: FrozenGraph) -> Failure:
        """Return what becomes of a graph."""
        self.asked += 1
        types = (DataType.FLOAT,)  # which says nothing about a graph that is there
        task = CaseTask(
            case=Case(name="graph", dtypes=types, build=partial(given, dumps(graph))),
            engines=(self._engine,),
            target=self._target,
            threads=0,
            options=self._options,
        )
        (result,) = self._pool.results([task])
        answer = result.answer
        if isinstance(answer, Ended):
            return Failure(status=answer.reason, detail=answer.detail)
        return Failure(status=str(answer["status"]), detail=str(answer.get("detail", "")))


def _kind(detail: str) -> str:
    return " ".join(_VARIES.sub("", detail).split())[:200]
