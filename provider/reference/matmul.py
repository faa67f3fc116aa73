# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmul; of two batch dims the smaller one is repeated element by element."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.matmul import Matmul
from .analysis import bilinear, exact_matmul
from .base import Context
from .convert import Array
from .thrift import Dims, Part, Thrift, norm

__all__ = ["REFERENCE"]


def _repeated(a: Array, b: Array) -> tuple[Array, Array]:
    for axis, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        # hipDNN: operand index = result index // (result extent // operand extent).
        a, b = a.repeat(max(m, n) // m, axis), b.repeat(max(m, n) // n, axis)
    return a, b


def _multiply(op: Matmul, a: Array, b: Array, dims: Dims) -> Array:
    return exact_matmul(*_repeated(a, b))


def _terms(op: Matmul, ctx: Context) -> int:
    return ctx.inputs["a"].dims[-1]


def _envelope(op: Matmul, a: Array, b: Array, dims: Dims) -> Array:
    rows, columns = _repeated(norm(a, -1, keep=True), norm(b, -2, keep=True))
    return np.asarray(rows * columns)


def _restrict(op: Matmul, a: Array, b: Array, dims: Dims, some: Array) -> Part:
    return Part(first=a, second=b[..., some], dims=(*dims[:-1], len(some)), at=(..., some))


_THRIFT = Thrift(envelope=_envelope, features=lambda op, a, b, dims: dims[-1], restrict=_restrict)

REFERENCE = bilinear(_multiply, ("a", "b"), "c", _terms, _THRIFT)
