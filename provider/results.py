# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results of a plan: arrays by uid, tensor or name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph_api.frozen import FrozenGraph
from ..graph_api.tensor import Tensor

__all__ = ["Results"]


class Results(dict[int, Any]):
    """The outputs of one execution by uid; ``results[y]`` and ``results["y"]`` work as well.

    Parameters
    ----------
    arrays : mapping of int to array
        By uid.
    graph : FrozenGraph
        The graph with their names.
    """

    def __init__(self, arrays: Mapping[int, Any], graph: FrozenGraph) -> None:
        super().__init__(arrays)
        self._graph = graph

    def __getitem__(self, key: int | str | Tensor) -> Any:
        return super().__getitem__(key)  # type: ignore[index]

    def __missing__(self, key: object) -> Any:
        names = {uid: self._graph.tensors[uid].name for uid in self}
        uids = [uid for uid, name in names.items() if name and name == key]
        if isinstance(key, Tensor) and key.uid in self:
            uids = [key.uid]
        if len(uids) == 1:
            return super().__getitem__(uids[0])
        known = ", ".join(
            f"{name!r} (uid {uid})" if name else f"uid {uid}" for uid, name in names.items()
        )
        raise KeyError(f"{len(uids)} outputs are called {key!r}; there are {known}")
