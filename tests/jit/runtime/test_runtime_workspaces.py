# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory that the runtime needs besides the caller's: workspaces and staging copies."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from hipdnn_iree.graph_api.errors import DeviceError
from hipdnn_iree.jit.runtime.arrays import aligned_bytes
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.workspaces import StagingPool, pool_of
from runtime_arrays import POISON, at_offset, floats

# --- workspace --------------------------------------------------------------------------------


def products(chain: Executable, workspace: Any, **how: Any) -> None:
    x, w, y = floats(48, 48), floats(48, 48), np.full((48, 48), POISON)
    plan = chain.bind({1: y, 2: x, 3: w}, workspace, **how)
    for _ in range(2):
        y[...] = POISON
        plan()
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)
    y[...] = POISON
    chain.execute({1: y, 2: x, 3: w}, workspace)
    np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("offset", [0, 8, 63])
@pytest.mark.parametrize("kind", ["bytes", "floats", "pointer", "dlpack"])
def test_the_callers_workspace_is_used_within_its_bounds(
    chain: Executable, kind: str, offset: int
) -> None:
    size = (chain.workspace_bytes + 63) // 64 * 64 + 64
    memory = aligned_bytes(size + 128)
    memory[:] = 0xA5
    mine = memory[64 + offset : 64 + size]
    workspace = {
        "bytes": lambda: mine,
        "floats": lambda: memory[64 : 64 + size].view(np.float32),
        "pointer": lambda: Pointer(mine.ctypes.data, mine.nbytes),
        "dlpack": lambda: Exporter(mine),
    }[kind]()
    products(chain, workspace)
    assert (memory[:64] == 0xA5).all()
    assert (memory[64 + size :] == 0xA5).all()
    assert (mine != 0xA5).any()


def test_a_misaligned_workspace_without_room_is_replaced(chain: Executable) -> None:
    memory = aligned_bytes(chain.workspace_bytes + 64)
    memory[:] = 0xA5
    mine = memory[8 : 8 + chain.workspace_bytes]
    products(chain, mine)
    products(chain, mine.ctypes.data)
    assert (memory == 0xA5).all()


def test_no_workspace_wanted_means_any_is_taken(relu: Executable) -> None:
    assert relu.workspace_bytes == 0
    x, y = floats(4, 4), np.full((4, 4), POISON)
    for workspace in (None, 0, Pointer(0, 0), np.empty(0, np.uint8), "whatever"):
        y[...] = POISON
        relu.bind({1: y, 2: x}, workspace)()
        np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_plans_share_the_workspaces_of_the_device(chain_case: Any) -> None:
    device = Device.open("local-sync")
    device.close()  # a device of our own: no other test has workspaces there
    chain, other = chain_case.load(), chain_case.load()
    pool = pool_of(chain.device)
    x, w, y = floats(48, 48), floats(48, 48), np.empty((48, 48), np.float32)
    buffers = {1: y, 2: x, 3: w}
    plans = [e.bind(buffers) for e in (chain, other) for _ in range(9)]
    for plan in plans:
        y[...] = POISON
        plan()
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)
    other.run({2: x, 3: w})
    other.execute(buffers)
    assert pool.count == 1  # no two of them ran at once
    assert chain.workspace_bytes <= pool.nbytes < chain.workspace_bytes + 4096
    # A workspace keeps the argument lists of the plans that live, and no others.
    (space,) = pool._all
    assert len(space.lists) == 18  # `execute` makes its list for each call
    del plan, plans[3:]
    gc.collect()
    assert len(space.lists) == 3
    del plans
    chain.forget()
    other.forget()
    gc.collect()
    assert not space.lists


# --- staging copies ---------------------------------------------------------------------------


def odd_sets(count: int) -> list[dict[int, Any]]:
    """Buffer sets of the relu at addresses that need staging copies."""
    return [
        {1: at_offset(np.full((4, 4), POISON), 16), 2: at_offset(floats(4, 4), 16)}
        for _ in range(count)
    ]


@pytest.mark.parametrize("how", ["bind", "execute"])
def test_buffer_sets_share_staging_copies(relu_case: Any, how: str) -> None:
    relu = relu_case.load()
    sets = odd_sets(300)
    plans = [relu.bind(buffers) for buffers in sets] if how == "bind" else []
    for _ in range(2):
        for i, buffers in enumerate(sets):
            plans[i]() if plans else relu.execute(buffers)
            np.testing.assert_array_equal(buffers[1], np.maximum(buffers[2], 0))
            buffers[1][...] = POISON
    assert relu.staging_bytes == 4096  # a page for the two tensors, not one for each set
    assert all(plan.staged == ("y", "x") for plan in plans)


def test_staging_copies_go_with_the_last_plan(relu_case: Any) -> None:
    relu = relu_case.load()
    plan = relu.bind(odd_sets(1)[0])
    assert relu.staging_bytes == 4096
    del plan
    gc.collect()
    assert relu.staging_bytes == 0
    relu.execute(odd_sets(1)[0])
    assert relu.staging_bytes == 4096
    relu.forget()
    gc.collect()
    assert relu.staging_bytes == 0


def test_idle_staging_memory_is_bounded_by_bytes() -> None:
    pool = StagingPool(Device.open("local-sync"))
    spaces = [pool.acquire(100 << 20) for _ in range(6)]  # never touched, so not even resident
    assert pool.nbytes == 600 << 20  # as many as run at the same time
    for space in spaces:
        pool.release(space)
    assert pool.nbytes == 300 << 20
    with pytest.raises(DeviceError, match="no 4611686018427387904 bytes of memory for staging"):
        pool.acquire(1 << 62)


def test_executables_share_staging_copies(relu_case: Any, chain_case: Any) -> None:
    relu, chain = relu_case.load(), chain_case.load()
    small, large = odd_sets(1)[0], [at_offset(floats(48, 48), 16) for _ in range(3)]
    y, x, w = large
    for _ in range(3):
        relu.execute(small)
        chain.execute({1: y, 2: x, 3: w})
        np.testing.assert_array_equal(small[1], np.maximum(small[2], 0))
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-3, atol=1e-3)
    # As large as what the larger one needs.
    assert relu.staging_bytes == chain.staging_bytes == -(-3 * y.nbytes // 4096) * 4096
