# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowerings: a module with ``lower`` per op, found by the op's name; imported on first use.

Importing this package costs nothing; importing a lowering loads torch-mlir.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from ...graph_api.ops import FAMILIES

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenNode
    from ..emit.builder import Builder, Value

__all__ = ["Lowering", "lowering"]


class Lowering(Protocol):
    """``lower(b, node, inputs)`` -> outputs, all with logical dims.

    Inputs come in their tensors' types; those of 8 bits or less are no numbers until they are
    converted, and may only be moved before.  An output may have any type: the caller converts it to
    the type of its tensor.  Except for pointwise ops no output may be an input unchanged
    (``Builder.copy``).
    """

    def __call__(
        self, b: Builder, node: FrozenNode, inputs: Mapping[str, Value]
    ) -> Mapping[str, Value]:
        """Emit one node."""


@cache
def lowering(name: str) -> Lowering:
    """Return the lowering of an op."""
    module = ".".join(filter(None, (FAMILIES[name], name)))
    function: Lowering = import_module(f".{module}", __name__).lower
    return function
