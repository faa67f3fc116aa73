# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that are made from addresses: what is recognised, what is declined, and the order."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.jit.runtime import address_calls, moved_buffers
from hipdnn_iree.jit.runtime.arrays import aligned_bytes
from hipdnn_iree.jit.runtime.binder import Binder
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.runtime.executable import Executable
from many_threads import in_threads

RNG = np.random.default_rng(77)
SIZE = 48 * 48 * 4


def aligned(values: Any = None) -> Any:
    array = aligned_bytes(SIZE).view(np.float32).reshape(48, 48)
    array[...] = RNG.standard_normal((48, 48), np.float32) if values is None else values
    return array


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each plan that is bound."""
    seen: list[object] = []
    bind = Binder.bind

    def counted(self: Binder, *arguments: Any) -> Any:
        seen.append(arguments)
        return bind(self, *arguments)

    monkeypatch.setattr(Binder, "bind", counted)
    return seen


KINDS: dict[str, Callable[[Any], Any]] = {
    "address": lambda array: array.ctypes.data,
    "array": lambda array: array,
    "dlpack": Exporter,
    "pointer": lambda array: Pointer(array.ctypes.data, array.nbytes),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", ["pool", "own"])
def test_new_addresses_at_each_call_are_not_bound(
    chain_case: Any, bound: list[object], kind: str, space: str
) -> None:
    chain, give = chain_case.load(remember=8), KINDS[kind]
    memory = aligned_bytes(chain.workspace_bytes + 64)[4:]
    workspace = None if space == "pool" else Pointer(memory.ctypes.data, memory.nbytes)
    w = aligned()
    for turn in range(40):
        x, y = aligned(), aligned(np.nan)
        chain.execute({1: give(y), 2: give(x), 3: give(w)}, workspace)
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)
        assert len(bound) <= 1, turn  # the first one, by which the kind is known from then on


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The addresses for which new buffers were made that can be moved."""
    seen: list[tuple[int, ...]] = []
    make = moved_buffers.moved_buffers

    def counted(device: Any, specs: Any, workspace_bytes: int, addresses: Any) -> Any:
        seen.append(tuple(addresses))
        return make(device, specs, workspace_bytes, addresses)

    monkeypatch.setattr(address_calls, "moved_buffers", counted)
    return seen


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
@pytest.mark.parametrize("space", ["pool", "own"])
def test_buffers_are_moved_to_new_addresses(
    chain_case: Any, imported: list[tuple[int, ...]], driver: str, space: str
) -> None:
    """With red zones around all of them; what is used before stays as it is."""
    chain = chain_case.load(driver)
    zones, kept = [], []
    for turn in range(30):
        memory = aligned_bytes(3 * (SIZE + 128) + chain.workspace_bytes + 256)
        memory[:] = 0xA5
        starts = [64 + k * (SIZE + 128) for k in range(3)]
        y, x, w = (memory[at : at + SIZE].view(np.float32).reshape(48, 48) for at in starts)
        x[...], w[...] = (RNG.standard_normal((48, 48), np.float32) for _ in "xw")
        begin = 3 * (SIZE + 128) + 64 + 4
        workspace = None
        if space == "own":
            nbytes = chain.workspace_bytes + 60
            workspace = Pointer(memory[begin:].ctypes.data, nbytes)
        chain.execute({1: y.ctypes.data, 2: x.ctypes.data, 3: w.ctypes.data}, workspace)
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)
        zones += [memory[at + SIZE : at + SIZE + 64] for at in starts]
        zones += [memory[:64], memory[begin - 4 : begin], memory[-60:]]
        kept.append((memory, memory.copy()))
        assert len(imported) == min(turn, 1)  # not for the first call of all
    assert all((zone == 0xA5).all() for zone in zones)
    assert all((memory == copy).all() for memory, copy in kept)


def test_addresses_that_come_again_get_a_call_of_their_own(
    chain: Executable, imported: list[tuple[int, ...]]
) -> None:
    sets = [{uid: aligned() for uid in (1, 2, 3)} for _ in range(3)]
    for turn in range(4):
        for arrays in sets:
            arrays[1][...] = np.nan
            chain.execute({uid: array.ctypes.data for uid, array in arrays.items()})
            np.testing.assert_allclose(
                arrays[1], arrays[2] @ arrays[3] @ arrays[3], rtol=1e-3, atol=1e-3
            )
        assert sum(call is None for call in chain._calls._calls.values()) == (0 if turn else 2)
    assert len(imported) == 1


def test_a_call_that_was_made_once_can_be_repeated(chain: Executable) -> None:
    first, second = ({uid: aligned() for uid in (1, 2, 3)} for _ in range(2))
    calls = [
        chain.call_at({uid: a.ctypes.data for uid, a in arrays.items()}, once=True)
        for arrays in (first, second)
    ]
    for _ in range(3):
        for call, arrays in zip(calls, (first, second), strict=True):
            assert call is not None
            arrays[1][...] = np.nan
            call()
            np.testing.assert_allclose(
                arrays[1], arrays[2] @ arrays[3] @ arrays[3], rtol=1e-3, atol=1e-3
            )


def test_threads_have_buffers_of_their_own(
    chain_case: Any, imported: list[tuple[int, ...]]
) -> None:
    chain = chain_case.load("local-task")
    chain.execute({uid: aligned() for uid in (1, 2, 3)})

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            y, x, w = (aligned(rng.standard_normal((48, 48), np.float32)) for _ in range(3))
            chain.execute({1: y.ctypes.data, 2: x.ctypes.data, 3: w.ctypes.data})
            np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)

    in_threads(4, work)
    assert 1 <= len(imported) <= 4


def test_another_iree_whose_buffers_are_not_understood(
    chain: Executable, imported: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved_buffers, "_places", {})
    monkeypatch.setattr(moved_buffers, "_REACH", 8)
    for _ in range(5):
        y, x, w = aligned(np.nan), aligned(), aligned()
        chain.execute({1: y.ctypes.data, 2: x.ctypes.data, 3: w.ctypes.data})
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)
    assert moved_buffers._places == {"local-sync": None}
    assert not imported


def test_run_makes_its_call_from_addresses(chain_case: Any, bound: list[object]) -> None:
    chain = chain_case.load()
    w = aligned()
    for _ in range(5):
        x = aligned()
        np.testing.assert_allclose(chain.run({2: x, 3: w})[1], x @ w @ w, rtol=1e-3, atol=1e-3)
    assert len(bound) == 1


def test_every_layout_is_recognised(layouts: Executable, bound: list[object]) -> None:
    for _ in range(3):
        x, y = (aligned_bytes(480).view(np.float32).reshape(2, 4, 5, 3) for _ in range(2))
        a, z = (aligned_bytes(96).view(np.float32).reshape(4, 6) for _ in range(2))
        row, p = (aligned_bytes(48).view(np.float32)[:n] for n in (6, 12))
        padded = aligned_bytes(80).view(np.float32).reshape(2, 10)
        for array in (x, a, row, padded):
            array[...] = RNG.standard_normal(array.shape, np.float32)
        wide = np.broadcast_to(row, (4, 6))  # read-only
        inputs = {4: x.transpose(0, 3, 1, 2), 5: a, 6: wide, 7: padded[:, :6]}
        layouts.execute({1: y.transpose(0, 3, 1, 2), 2: z, 3: p.reshape(2, 6), **inputs})
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        np.testing.assert_array_equal(z, a + row)
        np.testing.assert_array_equal(p.reshape(2, 6), np.maximum(padded[:, :6], 0))
    assert len(bound) == 1


def test_other_kinds_are_judged_anew(chain_case: Any) -> None:
    chain = chain_case.load()
    x, w, y = aligned(), aligned(), aligned(np.nan)
    chain.execute({1: y, 2: x, 3: w})
    fixed = aligned()
    fixed.flags.writeable = False
    chain.execute({1: y, 2: fixed, 3: w})
    np.testing.assert_allclose(y, fixed @ w @ w, rtol=1e-3, atol=1e-3)
    cases: dict[str, dict[int, Any]] = {
        "BIND-01": {1: y, 2: x},
        "BIND-02": {1: y, 2: x, 3: w, 4: x},
        "BIND-03": {1: y, 2: x, 3: "w"},
        "BIND-04": {1: y, 2: x, 3: w.view(np.int32)},
        "BIND-05": {1: y, 2: x, 3: w[:4]},
        "BIND-06": {1: y, 2: x, 3: w.T},
        "BIND-07": {1: fixed, 2: x, 3: w},
        "BIND-08": {1: y.ctypes.data, 2: 0, 3: w},
        "BIND-09": {1: y, 2: x, 3: Pointer(w.ctypes.data, 8)},
        "BIND-10": {1: y.ctypes.data, 2: x.ctypes.data, 3: y.ctypes.data + 64},
    }
    y[...] = 5
    for rule, buffers in cases.items():
        for call in (chain.execute, chain.bind):
            with pytest.raises(BindError) as caught:
                call(buffers)
            assert [p.rule for p in caught.value.problems] == [rule]
    with pytest.raises(BindError, match="BIND-11"):
        chain.execute({1: y, 2: x, 3: w}, Pointer(aligned_bytes(64).ctypes.data, 64))
    with pytest.raises(BindError, match="BIND-10"):
        chain.execute({1: y, 2: x, 3: w}, Pointer(x.ctypes.data, 1 << 20))
    assert (y == 5).all()
    chain.execute({1: y.ctypes.data, 2: x.ctypes.data, 3: x.ctypes.data})  # one input twice
    np.testing.assert_allclose(y, x @ x @ x, rtol=1e-3, atol=1e-3)


def test_what_is_taken_is_what_the_rules_take(chain: Executable) -> None:
    """Random addresses around each other: taken, copied or refused as `bind` does."""
    memory = aligned_bytes(8 * SIZE)
    first = memory.ctypes.data
    taken = {"in place": 0, "copied": 0, "refused": 0}
    for _ in range(2000):
        steps = RNG.integers(0, 4 * SIZE // 32, 3) * int(RNG.choice([32, 64, 64]))
        addresses = {uid: first + int(step) for uid, step in zip((1, 2, 3), steps, strict=True)}
        try:
            answer = "copied" if chain.bind(addresses).staged else "in place"
        except BindError:
            answer = "refused"
        assert (chain.call_at(addresses) is None) is (answer == "refused"), addresses
        chain.forget()
        assert (chain.call_at(addresses, copies=False) is None) is (answer != "in place")
        taken[answer] += 1
    assert min(taken.values()) > 100, taken


@pytest.mark.parametrize("which", [(1,), (2,), (3,), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("space", ["pool", "own"])
def test_misaligned_memory_is_copied(
    chain_case: Any, bound: list[object], which: tuple[int, ...], space: str
) -> None:
    """New addresses each time, with red zones; the copies take memory once."""
    chain = chain_case.load()
    memory = aligned_bytes(chain.workspace_bytes + 64)[4:]
    workspace = None if space == "pool" else Pointer(memory.ctypes.data, memory.nbytes)
    kept = []
    for turn in range(20):
        arrays, zones = {}, []
        for uid in (1, 2, 3):
            zone = aligned_bytes(SIZE + 192)
            zone[:] = 0xA5
            start = 64 + 4 * (1 + turn % 15) * (uid in which)
            arrays[uid] = zone[start : start + SIZE].view(np.float32).reshape(48, 48)
            arrays[uid][...] = RNG.standard_normal((48, 48), np.float32)
            zones += [zone[:start], zone[start + SIZE :]]
        arrays[1][...] = np.nan
        kept.append(arrays)
        buffers = arrays if turn % 2 else {uid: a.ctypes.data for uid, a in arrays.items()}
        x, w = arrays[2].copy(), arrays[3].copy()
        chain.execute(buffers, workspace)
        np.testing.assert_allclose(arrays[1], x @ w @ w, rtol=1e-3, atol=1e-3)
        assert (arrays[2] == x).all()
        assert (arrays[3] == w).all()
        assert all((zone == 0xA5).all() for zone in zones)
    assert len(bound) <= 1
    page = 4096
    assert chain.staging_bytes == -(-len(which) * SIZE // page) * page
    chain.forget()
    assert chain.staging_bytes == 0


def test_copies_of_several_threads(chain_case: Any) -> None:
    chain = chain_case.load("local-task")

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            y, x, w = (aligned_bytes(SIZE + 64)[16 : 16 + SIZE] for _ in range(3))
            y, x, w = (a.view(np.float32).reshape(48, 48) for a in (y, x, w))
            x[...], w[...] = (rng.standard_normal((48, 48), np.float32) for _ in range(2))
            chain.execute({1: y.ctypes.data, 2: x.ctypes.data, 3: w.ctypes.data})
            np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)

    in_threads(4, work)


def test_calls_that_are_remembered_are_bounded(chain_case: Any) -> None:
    chain = chain_case.load(remember=4)
    x, w, *outputs = (aligned() for _ in range(22))
    for y in outputs:
        chain.execute({1: y, 2: x, 3: w})
    assert len(chain._calls._calls) == 4
    chain.run({2: x, 3: w})
    assert len(chain._calls._calls) == 4
    chain.forget()
    assert not chain._calls._calls


def test_a_call_follows_an_asynchronous_one_on_the_same_buffers(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w, y = aligned(), aligned(), aligned(np.nan)
    buffers = {1: y, 2: x, 3: w}
    for _ in range(50):
        chain.execute(buffers)  # the kind is known before
        y[...] = np.nan
        pending = chain.execute_async(buffers)
        chain.execute(buffers)
        assert pending.done
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)


def test_threads_on_the_same_new_buffers(chain_case: Any) -> None:
    chain = chain_case.load("local-task")
    x, w = aligned(), aligned()
    wanted = x @ w @ w
    chain.execute({1: aligned(), 2: x, 3: w})

    for _ in range(5):
        y = aligned(np.nan)

        def work(_: int, y: Any = y) -> None:
            for _ in range(20):
                chain.execute({1: y, 2: x, 3: w})
                np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)

        in_threads(4, work)


def test_everything_goes_with_the_executable(chain_case: Any) -> None:
    """By reference counts: workspaces and copies are large, and nobody runs the collector."""
    gc.collect()
    gc.disable()
    try:
        chain = chain_case.load()
        x, w, y = aligned(), aligned(), aligned_bytes(SIZE + 64)[16 : 16 + SIZE]
        for _ in range(2):
            chain.execute({1: aligned(), 2: x, 3: w})
            chain.execute({1: y.ctypes.data, 2: x.ctypes.data, 3: w.ctypes.data})
        device = chain.device
        pools = [device.pool, device.staging]
        assert all(pool is not None and pool() is not None for pool in pools)
        del chain
        assert [pool and pool() for pool in pools] == [None, None]
    finally:
        gc.enable()
