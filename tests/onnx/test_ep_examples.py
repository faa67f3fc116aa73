# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example models, small: all nodes on the provider, fused, and right."""

from __future__ import annotations

from typing import Any

import pytest
from ep_models import agree, values
from hipdnn_iree.provider.onnx.reports import listening, summary

from tools.onnx.models import quantised, resnet, transformer


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        pytest.param(lambda: transformer(8, 64, 4, 2), (1, 8, 64), id="transformer"),
        pytest.param(lambda: quantised(2, 32), (2, 32), id="quantised"),
    ],
)
def test_example(made: Any, shape: tuple[int, ...]) -> None:
    whole = shape != (2, 32)  # of integer biases some stay with ONNX Runtime
    agree(made().SerializeToString(), {"x": values(shape)}, bound=2e-3, whole=whole)


@pytest.mark.slow
def test_residual_network_is_fused() -> None:
    source = resnet(32, 10, (8, 16)).SerializeToString()
    with listening() as heard:
        agree(source, {"x": values((1, 3, 32, 32))}, bound=2e-3)
    told = summary(heard[:1])
    assert told["assigned"] == told["nodes"]
    alone = ("Relu", "Add", "BatchNormalization")
    assert not [g for g in told["groups"] if all(n.startswith(alone) for n in g["nodes"])]
