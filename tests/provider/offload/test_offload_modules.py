# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of unusual form, element types, and buffers that are reused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree.provider.offload import offload
from hipdnn_iree.provider.offload.finished import plan_buffers
from torch_text import Module

Array = np.ndarray[Any, Any]


def check(text: str, inputs: list[Array], expected: list[Any], **options: Any) -> Any:
    module = offload(text, **options)
    found = module.executor().run(*inputs)
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert got.shape == np.shape(wanted)
        assert np.allclose(got.astype(np.float64), np.asarray(wanted, np.float64), atol=2e-2)
    return module


def test_constants_and_arguments_are_returned() -> None:
    m = Module()
    x, c = m.argument(2), m.literal("dense<[1.0, 2.0]>", 2)
    one = np.ones(2, np.float32)
    check(m.text(c, x, x), [one], [[1, 2], one, one])
    check(Module().text(), [], [])


def test_constants_as_operands() -> None:
    m = Module()
    x = m.argument(2, element="si64")
    c = m.literal("dense<[1, 2]>", 2, element="si64")
    y = m.op("aten.add.Tensor", [x, c, 3], 2, element="si64")
    z = m.op("aten.relu", [m.literal("dense<-2.0>")])
    check(m.text(y, z), [np.array([5, 6])], [[8, 12], 0.0])


def test_one_result_in_several_places() -> None:
    m = Module()
    x = m.argument(4)
    y = m.op("aten.relu", [x], 4)
    a = np.array([-1, 2, 3, 4], np.float32)
    check(m.text(y, x, y), [a], [np.maximum(a, 0), a, np.maximum(a, 0)])


def test_tensors_without_dims() -> None:
    m = Module()
    y = m.op("aten.relu", [m.argument()])
    z = m.op("aten.tril", [m.op("aten.view", [y, [1, 1]], 1, 1), 0], 1, 1)
    check(m.text(y, z), [np.array(-1, np.float32)], [0.0, [[0.0]]])


@pytest.mark.parametrize(
    ("element", "kind"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f64", np.float64)]
)
def test_floats(element: str, kind: Any) -> None:
    m = Module()
    operands = [m.argument(*d, element=element) for d in ((4, 8), (8, 4), (4,))]
    rng = np.random.default_rng(0)
    a, w, b = (rng.standard_normal(v.dims).astype(kind) for v in operands)
    y = m.op("aten.mm", operands[:2], 4, 4, element=element)
    y = m.op("aten.add.Tensor", [y, operands[2], 1], 4, 4, element=element)
    text = m.text(m.op("aten.relu", [y], 4, 4, element=element))
    wide = [v.astype(np.float64) for v in (a, w, b)]
    check(text, [a, w, b], [np.maximum(wide[0] @ wide[1] + wide[2], 0)])


def test_integers() -> None:
    m = Module()
    x, w = m.argument(4, 8, element="si8"), m.argument(8, 4, element="si8")
    u = m.argument(3, element="ui8")
    y = m.op("aten.mm", [x, w], 4, 4, element="si32")
    z = m.op("prims.convert_element_type", [u, 6], 3)
    a, b = (np.arange(n, n + 32).astype(np.int8) for n in (0, -16))
    a, b = a.reshape(4, 8), b.reshape(8, 4)
    c = np.array([1, 200, 255], np.uint8)
    module = check(m.text(y, z), [a, b, c], [a.astype(int) @ b.astype(int), c])
    assert not any(one.custom for one in module.graphs.values())


def test_quantised_values_stay_inside_a_region() -> None:
    q = "!torch.vtensor<[4,8],!torch.qint8>"
    text = f"""func.func @main(%x: !torch.vtensor<[4,8],si8>, %w: !torch.vtensor<[8,4],f32>)
        -> !torch.vtensor<[4,4],f32> {{
      %s = torch.constant.float 5.000000e-01
      %z = torch.constant.int 3
      %q = torch.aten._make_per_tensor_quantized_tensor %x, %s, %z :
        !torch.vtensor<[4,8],si8>, !torch.float, !torch.int -> {q}
      %d = torch.aten.dequantize.self %q : {q} -> !torch.vtensor<[4,8],f32>
      %y = torch.aten.mm %d, %w :
        !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,4],f32> -> !torch.vtensor<[4,4],f32>
      return %y : !torch.vtensor<[4,4],f32>
    }}"""
    x, w = np.arange(32, dtype=np.int8).reshape(4, 8), np.ones((8, 4), np.float32)
    module = check(text, [x, w], [(x.astype(float) - 3) / 2 @ w])
    assert len(module.graphs) == 1


def test_several_functions_and_declarations() -> None:
    kind = "!torch.vtensor<[4],f32>"
    body = "func.func @{0}(%x: {1}) -> {1} {{\n"
    body += "  %y = torch.aten.{2} %x : {1} -> {1}\n  return %y : {1}\n}}\n"
    text = f"func.func private @declared({kind}) -> {kind}\n"
    module = offload(text + body.format("f", kind, "relu") + body.format("g", kind, "neg"))
    a = np.array([-1, 1, 2, 3], np.float32)
    assert np.array_equal(module.executor("f").run(a)[0], np.maximum(a, 0))
    assert np.array_equal(module.executor("g").run(a)[0], -a)
    assert list(module.graphs) == ["hipdnn_graph_0", "hipdnn_graph_1"]


def test_buffers_share_memory_when_their_lives_do_not_overlap() -> None:
    m = Module()
    y = m.argument(8, 8)
    for _ in range(6):
        y = m.op("aten.softmax.int", [y, -1, None], 8, 8)
    executor = offload(m.text(y), engine="reference").executor()
    assert len(executor.program.steps) == 6
    assert executor.program.memory == 2 * 256
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    first, second = executor.run(x)[0], executor.run(x)[0]
    assert np.array_equal(first, second)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_live_buffers_overlap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = {i: int(n) * 64 for i, n in enumerate(rng.integers(1, 50, 30))}
    starts = {i: int(n) for i, n in enumerate(rng.integers(0, 40, 30))}
    lives = {i: (n, n + int(rng.integers(0, 8))) for i, n in starts.items()}
    offsets, nbytes = plan_buffers(sizes, lives)
    for i, size in sizes.items():
        assert offsets[i] % 64 == 0
        assert offsets[i] + size <= nbytes
        for j in range(i):
            if lives[i][0] <= lives[j][1] and lives[j][0] <= lives[i][1]:
                apart = offsets[i] >= offsets[j] + sizes[j]
                assert apart or offsets[j] >= offsets[i] + size
    most = max(sum(sizes[i] for i, (a, b) in lives.items() if a <= at <= b) for at in range(50))
    assert most <= nbytes <= sum(sizes.values())
