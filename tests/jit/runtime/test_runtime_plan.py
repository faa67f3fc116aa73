# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bound plans: numbers for every type, alignment, layout and way to give memory."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exporters import Exporter, OldExporter
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.jit.runtime.address_calls import AddressCalls
from hipdnn_iree.jit.runtime.arrays import aligned_bytes, empty, pack, unpack
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.elements import value_dtype
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule
from hipdnn_iree.jit.signature import ArgSpec, Signature
from runtime_arrays import POISON, RNG, at_offset, floats

# --- every data type --------------------------------------------------------------------------

TYPES = [t for t in DataType if t.value.mlir and t.bits >= 8]
DIMS = (4, 6)


def flip_text() -> str:
    """A function that reverses one tensor of every type that the dialect has."""
    types = [f"[4,6],{t.value.mlir}" for t in TYPES]
    outs = [f"%y{i}: !torch.tensor<{t}>" for i, t in enumerate(types)]
    ins = [f"%x{i}: !torch.vtensor<{t}>" for i, t in enumerate(types)]
    body = [
        f"""%r{i} = torch.aten.flip %x{i}, %axes
            : !torch.vtensor<{t}>, !torch.list<int> -> !torch.vtensor<{t}>
        torch.overwrite.tensor.contents %r{i} overwrites %y{i}
            : !torch.vtensor<{t}>, !torch.tensor<{t}>"""
        for i, t in enumerate(types)
    ]
    return f"""
    func.func @main({", ".join(outs + ins)}) attributes {{torch.assume_strict_symbolic_shapes}} {{
        %i0 = torch.constant.int 0
        %i1 = torch.constant.int 1
        %axes = torch.prim.ListConstruct %i0, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
        {"".join(body)}
        return
    }}"""


def flip_spec(data_type: DataType, output: bool) -> ArgSpec:
    return ArgSpec(output=output, data_type=data_type, dims=DIMS, strides=(6, 1), shape=DIMS)


@pytest.fixture(scope="module")
def flip(compile_text: Callable[..., bytes]) -> Executable:
    module = LoadedModule.load(Device.open(), compile_text(flip_text()))
    args = [flip_spec(t, output) for output in (True, False) for t in TYPES]
    signature = Signature(args=tuple(args), workspace_bytes=module.workspace_bytes)
    return Executable(module, signature, range(len(args)))


def bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("offset", [0, 1, 8, 63])
def test_every_type_in_and_out(flip: Executable, offset: int) -> None:
    count = len(TYPES)
    codes = [RNG.integers(0, 256, 24 * max(t.bits, 8) // 8).astype(np.uint8) for t in TYPES]
    inputs: dict[int, Any] = {}
    wanted: list[Any] = []
    for i, (t, raw) in enumerate(zip(TYPES, codes, strict=True)):
        about = flip_spec(t, False)
        if t is DataType.BOOLEAN:
            memory = pack(about, raw.reshape(DIMS) % 2)
        else:
            memory = raw.view(empty(about).dtype).reshape(DIMS)
        inputs[count + i] = at_offset(memory, offset)
        wanted.append(unpack(about, memory)[::-1, ::-1])
    outputs = {i: at_offset(np.full_like(inputs[count + i], 1), offset) for i in range(count)}
    plan = flip.bind({**inputs, **outputs})
    assert len(plan.staged) == (0 if offset == 0 else 2 * count)
    plan()
    for i, t in enumerate(TYPES):
        got = unpack(flip_spec(t, True), outputs[i])
        np.testing.assert_array_equal(bits(got), bits(wanted[i]), err_msg=str(t))
    made = flip.run(inputs)
    for i, t in enumerate(TYPES):
        assert made[i].ctypes.data % 64 == 0
        np.testing.assert_array_equal(bits(made[i]), bits(outputs[i]), err_msg=str(t))


@pytest.mark.parametrize("data_type", [DataType.FP4_E2M1, DataType.INT4])
def test_packed_types_are_raw_bytes(
    data_type: DataType, compile_text: Callable[..., bytes]
) -> None:
    """The code takes the packed bytes; here it reverses them."""
    text = """
    func.func @main(%y: !torch.tensor<[12],ui8>, %x: !torch.vtensor<[12],ui8>)
        attributes {torch.assume_strict_symbolic_shapes} {
      %i0 = torch.constant.int 0
      %axes = torch.prim.ListConstruct %i0 : (!torch.int) -> !torch.list<int>
      %r = torch.aten.flip %x, %axes
          : !torch.vtensor<[12],ui8>, !torch.list<int> -> !torch.vtensor<[12],ui8>
      torch.overwrite.tensor.contents %r overwrites %y
          : !torch.vtensor<[12],ui8>, !torch.tensor<[12],ui8>
      return
    }"""
    module = LoadedModule.load(Device.open(), compile_text(text))
    args = tuple(flip_spec(data_type, output) for output in (True, False))
    executable = Executable(module, Signature(args=args), (1, 2))
    codes = RNG.integers(0, 8, DIMS).astype(np.uint8)
    values = codes.view(value_dtype(data_type))
    swapped = codes.reshape(-1, 2)[::-1].reshape(DIMS)  # bytes reversed, nibbles within kept
    packed = pack(args[1], values)
    out = executable.run({2: packed})[1]
    assert out.dtype == values.dtype
    np.testing.assert_array_equal(bits(out), swapped)
    # Values are packed and unpacked around the call, whatever their strides; bytes are used as
    # they are.
    plan = executable.bind({1: (out := np.asfortranarray(np.zeros_like(out))), 2: values})
    assert len(plan.staged) == 2
    plan()
    np.testing.assert_array_equal(bits(out), swapped)
    plan = executable.bind({1: (raw := aligned_bytes(12)), 2: packed})
    assert not plan.staged
    plan()
    np.testing.assert_array_equal(bits(unpack(args[0], raw)), swapped)


# --- alignment --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(64))
def test_any_alignment(relu: Executable, offset: int) -> None:
    x = at_offset(floats(4, 4), offset)
    y = at_offset(np.full((4, 4), POISON), 63 - offset)
    plan = relu.bind({1: y, 2: x})
    assert plan.staged == tuple(n for n, o in (("y", 63 - offset), ("x", offset)) if o)
    guard = bytes((ctypes.c_char * 1).from_address(x.ctypes.data + x.nbytes))
    for _ in range(2):
        plan()
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        x[...] = floats(4, 4)  # read anew at the next call
        y[...] = POISON
    assert bytes((ctypes.c_char * 1).from_address(x.ctypes.data + x.nbytes)) == guard


def test_aligned_memory_is_used_in_place(relu: Executable) -> None:
    x, y = at_offset(floats(4, 4), 0), at_offset(np.full((4, 4), POISON), 0)
    plan = relu.bind({1: y, 2: x})
    assert plan.staged == ()
    plan()
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    x[0, 0] = 4711
    plan()
    assert y[0, 0] == 4711


# --- layouts ----------------------------------------------------------------------------------


def layout_arrays(offset: int = 0) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the buffers of the layout module and what the outputs shall be."""
    x = at_offset(floats(2, 4, 5, 3), offset).transpose(0, 3, 1, 2)
    a, row = at_offset(floats(4, 6), offset), at_offset(floats(6), offset)
    padded = at_offset(floats(2, 10), offset)
    y = at_offset(np.full((2, 4, 5, 3), POISON), offset).transpose(0, 3, 1, 2)
    z = at_offset(np.full((4, 6), POISON), offset)
    p = at_offset(np.full((2, 6), POISON), offset)
    b, q = np.broadcast_to(row, (4, 6)), padded[:, :6]
    buffers = {1: y, 2: z, 3: p, 4: x, 5: a, 6: b, 7: q}
    return buffers, {1: np.maximum(x, 0), 2: a + row, 3: np.maximum(q, 0)}


@pytest.mark.parametrize("offset", [0, 4])
def test_permuted_broadcast_and_padded_views(layouts: Executable, offset: int) -> None:
    buffers, wanted = layout_arrays(offset)
    plan = layouts.bind(buffers)
    assert len(plan.staged) == (7 if offset else 0)
    plan()
    for uid, array in wanted.items():
        np.testing.assert_array_equal(buffers[uid], array)


def test_a_broadcast_dim_may_have_extent_one(layouts: Executable) -> None:
    buffers, wanted = layout_arrays()
    buffers[6] = np.ascontiguousarray(buffers[6][:1])
    layouts.bind(buffers)()
    np.testing.assert_array_equal(buffers[2], wanted[2])


def test_a_padded_view_at_the_end_of_its_memory(layouts: Executable) -> None:
    """Only the span is touched: the last row's padding need not exist."""
    buffers, wanted = layout_arrays()
    whole = at_offset(floats(16), 0)
    buffers[7] = np.lib.stride_tricks.as_strided(whole, (2, 6), (40, 4))
    layouts.bind(buffers)()
    np.testing.assert_array_equal(buffers[3], np.maximum(buffers[7], 0))
    np.testing.assert_array_equal(buffers[1], wanted[1])


@pytest.mark.parametrize("kind", ["array", "dlpack"])
def test_copy_takes_any_strides(layouts: Executable, kind: str) -> None:
    buffers, _ = layout_arrays()
    x, y = floats(2, 3, 4, 5), np.full((2, 3, 4, 5), POISON)  # NCHW where NHWC is wanted
    z = np.full((6, 8), POISON)
    a = floats(4, 6)[::-1]  # negative strides
    changed = {1: y, 2: z.T[::2], 4: x, 5: a, 7: floats(2, 6)}
    if kind == "dlpack":
        changed = {uid: Exporter(array) for uid, array in changed.items() if uid != 5} | {5: a}
    with pytest.raises(BindError) as caught:
        layouts.bind({**buffers, **changed})
    assert {p.rule for p in caught.value.problems} == {"BIND-06"}
    plan = layouts.bind({**buffers, **changed}, copy=True)
    assert plan.staged == ("y", "z", "x", "a", "q")
    for _ in range(2):
        plan()
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        np.testing.assert_array_equal(z.T[::2], a + buffers[6])
        assert (z.T[1::2] == POISON).all()
        x[...] = floats(2, 3, 4, 5)
        y[...] = POISON
    wanted = layouts.run({uid: buffers[uid] for uid in (5, 6, 7)} | {4: x}, copy=True)
    np.testing.assert_array_equal(wanted[1], np.maximum(x, 0))
    assert wanted[1].strides == buffers[1].strides


def test_copied_tensors_may_have_one_name(layout_case: Any) -> None:
    """Names are labels: of two copied operands with the same one, each is copied."""
    case = replace(layout_case, names=("same",) * len(layout_case.args))
    layouts = case.load()
    buffers, _ = layout_arrays()
    x, a, q = floats(2, 3, 4, 5), floats(4, 6)[::-1], floats(2, 6)  # NCHW where NHWC is wanted
    plan = layouts.bind({**buffers, 4: x, 5: a, 7: q}, copy=True)
    assert plan.staged[:2] == ("same", "same")
    plan()
    np.testing.assert_array_equal(buffers[1], np.maximum(x, 0))
    np.testing.assert_array_equal(buffers[2], a + buffers[6])
    np.testing.assert_array_equal(buffers[3], np.maximum(q, 0))


# --- DLPack and addresses ---------------------------------------------------------------------


@pytest.mark.parametrize("exporter", [Exporter, OldExporter])
@pytest.mark.parametrize("offset", [0, 12])
def test_dlpack_in_and_out(layouts: Executable, exporter: type[Exporter], offset: int) -> None:
    buffers, wanted = layout_arrays(offset)
    # NumPy does not export read-only views by the old protocol.
    given = {uid: exporter(array) for uid, array in buffers.items() if uid != 6}
    for run in (layouts.bind({**given, 6: buffers[6]}), None):
        for uid in wanted:
            buffers[uid][...] = POISON
        run() if run else layouts.execute({**given, 6: buffers[6]})
        for uid, array in wanted.items():
            np.testing.assert_array_equal(buffers[uid], array)


def test_a_dlpack_read_only_input_is_fine(relu: Executable) -> None:
    x = floats(4, 4)
    x.flags.writeable = False
    np.testing.assert_array_equal(relu.run({2: Exporter(x)})[1], np.maximum(x, 0))


def test_torch_tensors(relu: Executable) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(4, 4), torch.full((4, 4), -77.0)
    relu.bind({1: y, 2: x})()
    assert torch.equal(y, torch.relu(x))
    with pytest.raises(BindError, match=r"\.detach\(\)"):
        relu.bind({1: y, 2: x.requires_grad_()})


@pytest.mark.parametrize("offset", [0, 4, 33])
@pytest.mark.parametrize("sized", [True, False, None])
def test_raw_addresses(layouts: Executable, offset: int, sized: bool | None) -> None:
    buffers, wanted = layout_arrays(offset)

    def address(array: Any, spec: ArgSpec) -> Any:
        start = array.ctypes.data
        return start if sized is None else Pointer(start, spec.nbytes if sized else None)

    given = {
        uid: address(array, spec)
        for (uid, array), spec in zip(buffers.items(), layouts.signature.args, strict=True)
    }
    layouts.bind(given)()
    for uid, array in wanted.items():
        np.testing.assert_array_equal(buffers[uid], array)
        buffers[uid][...] = POISON
    for _ in range(2):
        layouts.execute(given)
    for uid, array in wanted.items():
        np.testing.assert_array_equal(buffers[uid], array)


# --- what is kept alive -----------------------------------------------------------------------


class Tracked(np.ndarray):
    """An array that a weak reference can watch."""


def tracked(array: Any) -> Any:
    return aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape).view(Tracked)


def test_a_plan_keeps_its_buffers_and_closing_lets_go(relu: Executable) -> None:
    for wrap in (lambda a: a, Exporter):
        x, y = tracked(floats(4, 4)), tracked(floats(4, 4))
        x[...] = 5
        watch = weakref.ref(x)
        plan = relu.bind({1: y, 2: wrap(x)})
        del x
        gc.collect()
        plan()
        assert watch() is not None
        assert (y == 5).all()
        plan.close()
        gc.collect()
        assert watch() is None
        with pytest.raises(BindError, match="closed"):
            plan()
        plan.close()


def test_execute_keeps_nothing_of_the_callers(relu: Executable) -> None:
    x, y = tracked(floats(4, 4)), tracked(floats(4, 4))
    x[...] = 5
    watches = [weakref.ref(x), weakref.ref(y)]
    relu.execute({1: y, 2: Exporter(x)})
    assert (y == 5).all()
    del x, y
    gc.collect()
    assert [w() for w in watches] == [None, None]


def test_a_plan_outlives_its_executable_and_device(relu_case: Any) -> None:
    executable = relu_case.load()
    x, y = floats(4, 4), np.full((4, 4), POISON)
    plan = executable.bind({1: y, 2: x})
    executable.device.close()
    del executable
    gc.collect()
    plan()
    np.testing.assert_array_equal(y, np.maximum(x, 0))


# --- execute ----------------------------------------------------------------------------------


def count_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    make = AddressCalls._make

    def counted(self: AddressCalls, *arguments: Any) -> Any:
        calls.append(1)
        return make(self, *arguments)

    monkeypatch.setattr(AddressCalls, "_make", counted)
    return calls


def test_execute_reuses_argument_lists(chain_case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_case.load(remember=2)
    calls = count_made(monkeypatch)
    x, w, *outputs = (at_offset(floats(48, 48), 0) for _ in range(5))
    wanted = x @ w @ w
    space = aligned_bytes(chain.workspace_bytes)

    def run(y: Any, expected: int, workspace: Any = None) -> None:
        y[...] = POISON
        chain.execute({1: y, 2: x, 3: w}, workspace)
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)
        assert len(calls) == expected

    run(outputs[0], 0)  # bound; from now on such arrays are known
    run(outputs[0], 1)
    run(outputs[0], 1)
    run(outputs[1], 1)  # the first time buffers are moved
    run(outputs[1], 2)
    run(outputs[0], 2)
    run(outputs[2], 2)  # drops outputs[0], which was made first
    run(outputs[2], 3)
    run(outputs[1], 3)
    run(outputs[0], 3)
    run(outputs[0], 4)
    run(outputs[0], 4, space.ctypes.data)
    run(outputs[0], 5, space.ctypes.data)
    run(outputs[0], 5, space.ctypes.data)
    chain.forget()
    run(outputs[0], 6)


def test_execute_looks_at_more_than_the_address(relu: Executable) -> None:
    x, y = floats(4, 4), np.full((4, 4), POISON)
    relu.execute({1: y, 2: x})
    for other in (x.view(np.int32), x.T, x.reshape(2, 8), Pointer(x.ctypes.data, 8)):
        with pytest.raises(BindError):
            relu.execute({1: y, 2: other})
    y.flags.writeable = False
    with pytest.raises(BindError):
        relu.execute({1: y, 2: x})


# --- run --------------------------------------------------------------------------------------


def test_run_refuses_outputs_and_unknown_uids(relu: Executable) -> None:
    x, y = floats(4, 4), np.full((4, 4), POISON)
    with pytest.raises(BindError, match=r"uid 1: \[BIND-02\].*run\(\) makes the outputs"):
        relu.run({1: y, 2: x})
    with pytest.raises(BindError, match=r"BIND-02"):
        relu.run({2: x, 3: x})
    assert (y == POISON).all()


def test_a_tensor_without_dims(compile_text: Callable[..., bytes]) -> None:
    text = """
    func.func @main(%y: !torch.tensor<[],f32>, %x: !torch.vtensor<[],f32>)
        attributes {torch.assume_strict_symbolic_shapes} {
      %r = torch.aten.neg %x : !torch.vtensor<[],f32> -> !torch.vtensor<[],f32>
      torch.overwrite.tensor.contents %r overwrites %y
          : !torch.vtensor<[],f32>, !torch.tensor<[],f32>
      return
    }"""
    module = LoadedModule.load(Device.open(), compile_text(text))
    args = tuple(
        ArgSpec(output=o, data_type=DataType.FLOAT, dims=(), strides=(), shape=())
        for o in (True, False)
    )
    executable = Executable(module, Signature(args=args), (1, 2))
    assert executable.run({2: np.array(3.0, np.float32)})[1] == -3
