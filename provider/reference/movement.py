# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the references of ops that only move elements share: nothing is computed or rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["moving"]

Move = Callable[[Any, Arrays, Context, bool], Array]
"""From op, inputs, context and "these are errors" to y."""


def moving(move: Move) -> Reference:
    """Return the reference of an op whose errors move as its elements do."""

    def evaluate(op: Any, inputs: Arrays, ctx: Context) -> Arrays:
        return {"y": move(op, inputs, ctx, False)}

    def bound(op: Any, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
        broadcast = {port: np.broadcast_to(errors[port], a.shape) for port, a in inputs.items()}
        return {"y": move(op, broadcast, ctx, True)}

    return Reference(
        evaluate=evaluate,
        bound=bound,
        domain=lambda op, port, ctx: Domain(),
        exact_ports=lambda op, ctx: frozenset(ctx.inputs),
    )
