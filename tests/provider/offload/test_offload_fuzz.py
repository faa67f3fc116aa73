# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random functions of aten ops: regions in a runnable order, and results against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.provider.offload import module, offload, outline
from torch_text import Module, Val

Array = np.ndarray[Any, Any]
Known = list[tuple[Val, Array]]


class Writer:
    """Writes a random function and computes it in float64 on the way."""

    def __init__(self, seed: int, *, odd: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.module = Module()
        self.inputs: list[Array] = []
        self.known: Known = []
        self.odd = odd
        for _ in range(int(self.rng.integers(2, 5))):
            dims = tuple(int(n) for n in self.rng.choice([1, 2, 3, 4], self.rng.integers(1, 4)))
            self.argument(dims)

    def argument(self, dims: tuple[int, ...]) -> tuple[Val, Array]:
        array = self.rng.uniform(-1, 1, dims).astype(np.float32)
        self.inputs.append(array)
        self.known.append((self.module.argument(*dims), array.astype(np.float64)))
        return self.known[-1]

    def pick(self, test: Callable[[Array], bool] = lambda a: True) -> tuple[Val, Array] | None:
        fitting = [one for one in self.known if test(one[1])]
        return fitting[int(self.rng.integers(len(fitting)))] if fitting else None

    def add(self, name: str, operands: list[Any], result: Array) -> None:
        if 0 < result.size <= 512 and result.ndim <= 4 and np.abs(result).max() < 1e3:
            made = self.module.op(name, operands, *result.shape, location=f"node{len(self.known)}")
            self.known.append((made, result))

    def step(self) -> None:
        kinds = [self.unary, self.binary, self.matmul, self.row, self.move, self.join, self.reduce]
        if self.odd:
            kinds.append(self.unsupported)
        kinds[int(self.rng.integers(len(kinds)))]()

    def unary(self) -> None:
        v, a = self.pick() or self.known[0]
        table: dict[str, tuple[list[Any], Array]] = {
            "relu": ([], np.maximum(a, 0)),
            "tanh": ([], np.tanh(a)),
            "sigmoid": ([], 1 / (1 + np.exp(-a))),
            "abs": ([], np.abs(a)),
            "leaky_relu": ([0.25], np.where(a > 0, a, a / 4)),
            "clamp": ([-0.5, 0.75], np.clip(a, -0.5, 0.75)),
            "mul.Scalar": ([0.5], a / 2),
            "add.Scalar": ([0.25, 2], a + 0.5),
        }
        name = str(self.rng.choice(list(table)))
        rest, result = table[name]
        self.add(f"aten.{name}", [v, *rest], result)

    def binary(self) -> None:
        v, a = self.pick() or self.known[0]

        def fits(b: Array) -> bool:
            try:
                return bool(np.broadcast_shapes(a.shape, b.shape))
            except ValueError:
                return False

        w, b = self.pick(fits) or (v, a)
        table: dict[str, tuple[list[Any], Array]] = {
            "add.Tensor": ([2], a + 2 * b),
            "sub.Tensor": ([1], a - b),
            "mul.Tensor": ([], a * b),
            "maximum": ([], np.maximum(a, b)),
        }
        name = str(self.rng.choice(list(table)))
        rest, result = table[name]
        self.add(f"aten.{name}", [v, w, *rest], result)

    def matmul(self) -> None:
        found = self.pick(lambda a: a.ndim >= 2)
        if found is None:
            return
        v, a = found
        w, b = self.pick(lambda b: b.ndim == 2 and b.shape[0] == a.shape[-1]) or self.argument(
            (a.shape[-1], 3)
        )
        self.add("aten.matmul", [v, w], a @ b)

    def row(self) -> None:
        found = self.pick(lambda a: a.shape[-1] > 1)
        if found is None:
            return
        v, a = found
        if self.rng.random() < 0.5:
            e = np.exp(a - a.max(-1, keepdims=True))
            self.add("aten.softmax.int", [v, -1, None], e / e.sum(-1, keepdims=True))
        else:
            y = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 0.1)
            self.add("aten.layer_norm", [v, [a.shape[-1]], None, None, 0.1, False], y)

    def reduce(self) -> None:
        v, a = self.pick(lambda a: a.ndim > 1) or self.known[0]
        if a.ndim < 2:
            return
        axis, keep = int(self.rng.integers(a.ndim)), bool(self.rng.random() < 0.5)
        self.add("aten.mean.dim", [v, [axis], keep, None], a.mean(axis, keepdims=keep))

    def move(self) -> None:
        v, a = self.pick() or self.known[0]
        order = [int(i) for i in self.rng.permutation(a.ndim)]
        choices: list[tuple[str, list[Any], Array]] = [
            ("permute", [v, order], a.transpose(order)),
            ("view", [v, [a.size]], a.reshape(-1)),
            ("unsqueeze", [v, 0], a[None]),
            ("slice.Tensor", [v, 0, 0, max(1, a.shape[0] - 1), 1], a[: max(1, a.shape[0] - 1)]),
            (
                "constant_pad_nd",
                [v, [1, 0], 0.5],
                np.pad(a, [*[(0, 0)] * (a.ndim - 1), (1, 0)], constant_values=0.5),
            ),
        ]
        name, operands, result = choices[int(self.rng.integers(len(choices)))]
        self.add(f"aten.{name}", operands, result)

    def join(self) -> None:
        v, a = self.pick() or self.known[0]
        w, b = self.pick(lambda b: b.shape[1:] == a.shape[1:] and b.ndim == a.ndim) or (v, a)
        self.add("aten.cat", [[v, w], 0], np.concatenate([a, b]))

    def unsupported(self) -> None:
        found = self.pick(lambda a: a.ndim >= 2)
        if found is not None:
            self.add("aten.tril", [found[0], 0], np.tril(found[1]))


def written(seed: int, steps: int, *, odd: bool = False) -> tuple[str, list[Array], list[Array]]:
    """Return the text of a function, its inputs and its results in float64."""
    writer = Writer(seed, odd=odd)
    for _ in range(steps):
        writer.step()
    last = writer.known[-3:]
    if seed % 3 == 0:
        last.append(last[0])  # a value that is returned twice
    if seed % 4 == 0:
        last.append(writer.known[0])  # an argument that is returned
    text = writer.module.text(*(value for value, _ in last))
    return text, writer.inputs, [array for _, array in last]


def compare(text: str, inputs: list[Array], expected: list[Array], **options: Any) -> None:
    found = offload(text, **options).executor().run(*inputs)
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert got.shape == wanted.shape
        assert np.allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(24))
def test_random_functions_are_right(seed: int) -> None:
    text, inputs, expected = written(seed, 14)
    compare(text, inputs, expected, engine="reference")


@pytest.mark.parametrize("seed", range(100, 103))
def test_random_functions_compiled_with_ops_that_stay(seed: int) -> None:
    text, inputs, expected = written(seed, 16, odd=True)
    compare(text, inputs, expected)


@pytest.mark.parametrize("seed", range(200, 230))
def test_every_step_has_its_operands(seed: int) -> None:
    text, _, _ = written(seed, 40, odd=True)
    for whole_nodes in (False, True):
        found = outline(text, whole_nodes=whole_nodes)
        (function,) = found.functions
        known = set(function.arguments)
        for step in function.steps:
            assert set(step.operands) <= known
            known |= set(step.results)
        assert set(function.returned) <= known
        assert {one.op for one in found.declined} <= {"aten.tril"}
        again = module(found.text).run("hipdnn-offload")
        assert again.text == found.text
