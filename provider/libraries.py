# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results in the library that the caller's inputs are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..graph_api.frozen import FrozenGraph

if TYPE_CHECKING:
    import numpy as np

__all__ = ["as_given"]


def as_given(
    arrays: Mapping[int, np.ndarray[Any, Any]], inputs: Iterable[Any], graph: FrozenGraph
) -> dict[int, Any]:
    """Return results as the library of the first input that is of another one than NumPy has them.

    Parameters
    ----------
    arrays : mapping of uid to ndarray
        The results.
    inputs : iterable
        What the caller gave: NumPy arrays, numbers, addresses; tensors of PyTorch, for which the
        results share the arrays' memory or are copied to the tensor's GPU; or arrays of a library
        that follows the Python array API (``__array_namespace__``).
    graph : FrozenGraph

    Returns
    -------
    dict of uid to array
        NumPy arrays where the library has no such type (4 and 6 bits in PyTorch).
    """
    import numpy as np

    for given in inputs:
        if isinstance(given, np.ndarray | np.generic):
            continue
        if type(given).__module__.partition(".")[0] == "torch":
            return {uid: _to_torch(a, given, graph, uid) for uid, a in arrays.items()}
        space = getattr(given, "__array_namespace__", None)
        if space is not None:
            return {uid: space().asarray(array) for uid, array in arrays.items()}
    return dict(arrays)


def _to_torch(array: np.ndarray[Any, Any], given: Any, graph: FrozenGraph, uid: int) -> Any:
    from .torch_import import load_torch, torch_type

    torch = load_torch()
    kind = graph.tensors[uid].data_type
    dtype = torch_type(torch, kind)
    if dtype is None or array.dtype.itemsize * 8 != kind.bits:
        return array
    if array.dtype.isbuiltin != 1:  # a type of ml_dtypes, which PyTorch does not know
        array = array.view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(array).view(dtype).to(given.device)
