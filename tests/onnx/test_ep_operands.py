# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that are mostly constants, here known at execution: axes, slices, sizes, scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from covering import covering
from ep_models import agree, model, node, session, values
from hipdnn_iree.provider.onnx.reports import listening, summary
from onnx import TensorProto

INT, F = TensorProto.INT64, TensorProto.FLOAT


def check(op: str, x: Any, given: dict[str, Any], out: Any, order: str, **more: Any) -> None:
    """Run one node on what is given at execution."""
    feed = {"x": values(x), **given}
    kinds = {n: INT if a.dtype == np.int64 else F for n, a in feed.items()}
    source = model(
        [node(op, order, "y", **more)],
        {n: a.shape for n, a in feed.items()},
        {"y": out},
        kinds=kinds,
    )
    agree(source, feed)


def integers(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("dims", "axes", "keep", "out"),
    [
        ((3, 2, 2), (1,), 1, (3, 1, 2)),
        ((3, 2, 2), (-1,), 0, (3, 2)),  # told from the other axis by the operand
        ((3, 2, 2), (1,), 0, (3, 2)),
        ((5, 1, 7), (0, 1), 0, (7,)),
        ((5, 3), (), 1, (1, 1)),
    ],
)
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax"])
def test_axes(op: str, dims: Any, axes: Any, keep: int, out: Any) -> None:
    check(op, dims, {"a": integers(*axes)}, out, "x a", keepdims=keep)


def test_axes_that_the_dims_do_not_tell() -> None:
    source = model(
        [node("ReduceSum", "x a", "y", keepdims=0)],
        {"x": (3, 2, 2, 2), "a": (2,)},
        {"y": (3, 2)},
        kinds={"a": INT},
    )
    with listening() as heard:
        session(source, whole=False)
    (found,) = summary(heard)["declined"]
    assert found["rule"] == "EP-05"
    assert "axes" in found["reason"]


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "out"),
    [
        ((1, -4), (5, -1), (0, 2), None, (4, 4, 3)),
        ((-1,), (-100,), (-1,), (-2,), (6, 4, 4)),
        ((0, 1, 2), (6, 2, 7), None, None, (6, 1, 5)),
    ],
)
def test_slices(starts: Any, ends: Any, axes: Any, steps: Any, out: Any) -> None:
    given = {"s": integers(*starts), "e": integers(*ends)}
    order = "x s e"
    for name, numbers in (("a", axes), ("t", steps)):
        if numbers:
            given[name] = integers(*numbers)
            order += f" {name}"
    check("Slice", (6, 4, 7), given, out, order)


@pytest.mark.parametrize(
    ("mode", "where", "by"),
    covering(
        ["nearest", "linear", "cubic"],
        ["half_pixel", "asymmetric", "align_corners"],
        ["scales", "sizes"],
    ),
)
def test_resize(mode: str, where: str, by: str) -> None:
    given = {"s": np.array([1, 1, 1.5, 0.6], np.float32)}
    if by == "sizes":
        given = {"s": integers(1, 2, 7, 3)}
    check(
        *("Resize", (1, 2, 5, 5), given, (1, 2, 7, 3)),
        "x - s" if by == "scales" else "x - - s",
        mode=mode,
        coordinate_transformation_mode=where,
    )


def test_expanding() -> None:
    check("Expand", (3, 1), {"s": integers(2, 1, 5)}, (2, 3, 5), "x s")
