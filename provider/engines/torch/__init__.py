# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How PyTorch computes each op: ``TORCH`` in the module named as the op, where it serves the op."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from ....graph_api.ops import OPS
from .torch_op import TorchOp

__all__ = ["served", "served_by"]


@cache
def served_by(name: str) -> TorchOp | None:
    """Return how an op (``Op.NAME``) is served, or None when it is not."""
    if name not in OPS or find_spec(f".{name}", __name__) is None:
        return None
    found = import_module(f".{name}", __name__).TORCH
    assert isinstance(found, TorchOp)
    return found


def served() -> tuple[str, ...]:
    """Return the ops that are served, by name."""
    return tuple(name for name in OPS if served_by(name) is not None)
