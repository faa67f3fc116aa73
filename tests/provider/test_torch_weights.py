# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of torch modules that plans hold: packed once, and seen when they change."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.provider.torch import backend, reports
from many_threads import in_threads

torch = pytest.importorskip("torch")

from hipdnn_iree.provider.torch import split  # noqa: E402
from hipdnn_iree.provider.torch.weights import HeldWeights  # noqa: E402

HELD = {"hold_weights": True}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HIPDNN_IREE_POLICY", "order")  # no times decide
    torch._dynamo.reset()
    reports(clear=True)
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[HeldWeights]:
    """What is made to hold weights from here on."""
    made: list[HeldWeights] = []

    class Noted(HeldWeights):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(split, "HeldWeights", Noted)
    return made


def model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU(), torch.nn.Linear(20, 6))


def wanted(module: Any, x: Any) -> Any:
    first, _, last = module
    hidden = torch.relu(x.double() @ first.weight.double().T + first.bias)
    return hidden @ last.weight.double().T + last.bias


def check(served: Any, module: Any) -> None:
    x = torch.randn(3, 12)
    assert torch.allclose(served(x).double(), wanted(module, x), atol=1e-5)


def version(w: Any) -> None:
    w.copy_(torch.randn_like(w))


def data(w: Any) -> None:
    w.data.mul_(-2)


def moved(w: Any) -> None:
    w.data = torch.randn_like(w)


def numpy(w: Any) -> None:
    w.detach().numpy()[...] *= 3


@pytest.mark.parametrize("change", [version, data, moved, numpy])
def test_changed_weights_are_packed_again(
    change: Callable[[Any], None], held: list[HeldWeights]
) -> None:
    module = model()
    served = torch.compile(module, backend=backend, options=HELD)
    for _ in range(2):
        check(served, module)
    (one,) = held
    assert len(one._program.weights) == 4
    (first,) = one._sets.values()
    for weight in (module[0].weight, module[2].bias):
        change(weight)
        check(served, module)
    (second,) = one._sets.values()
    assert second is not first
    check(served, module)
    assert [second] == list(one._sets.values())


def test_modules_that_share_code_have_weights_of_their_own(held: list[HeldWeights]) -> None:
    """Equal layers are traced once; what belongs to one goes with it."""
    call = torch.compile(lambda module, x: module(x), backend=backend, options=HELD)
    modules = [model() for _ in range(3)]

    def served(module: Any) -> Any:
        return lambda x: call(module, x)

    for module in modules * 2:
        check(served(module), module)
    count = sum(len(one._sets) for one in held)
    assert count == 3
    in_threads(6, lambda k: [check(served(modules[k % 3]), modules[k % 3]) for _ in range(10)])
    del module, modules[1:]
    gc.collect()
    check(served(modules[0]), modules[0])


def test_weights_without_a_version(held: list[HeldWeights]) -> None:
    with torch.inference_mode():
        module = model()
        served = torch.compile(module, backend=backend, options=HELD)
        check(served, module)
        module[2].weight[3, 5] += 1
        check(served, module)
    assert held


def test_layouts_and_views(held: list[HeldWeights]) -> None:
    conv = torch.nn.Conv2d(5, 7, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 5, 8, 8)
    served = torch.compile(conv, backend=backend, options=HELD)
    for _ in range(2):
        right = torch.nn.functional.conv2d(x.double(), conv.weight.double(), conv.bias.double())
        assert torch.allclose(served(x).double(), right, atol=1e-5)
        conv.weight.add_(1)
    assert held


def test_what_is_written_or_trained_is_an_argument(held: list[HeldWeights]) -> None:
    norm = torch.nn.BatchNorm1d(6).train()
    served = torch.compile(norm, backend=backend, options=HELD)
    plain = torch.nn.BatchNorm1d(6).train()
    for _ in range(3):
        x = torch.randn(10, 6) + 3
        assert torch.allclose(served(x), plain(x), atol=1e-5)
    assert torch.allclose(norm.running_mean, plain.running_mean, rtol=1e-5)
    names = {name for one in held for name in one._program.weights}
    assert len(names) <= 2  # scale and bias, not what is counted
    held.clear()
    with torch.enable_grad():
        module = model()
        torch.compile(module, backend=backend, options=HELD)(torch.randn(3, 12)).sum().backward()
    assert not held


def test_nothing_is_held_unless_asked_for(held: list[HeldWeights]) -> None:
    module = model()
    check(torch.compile(module, backend=backend), module)
    assert not held
    with pytest.raises(SettingError, match="hold_weights: got 'no'"):
        backend(None, (), options={"hold_weights": "no"})
