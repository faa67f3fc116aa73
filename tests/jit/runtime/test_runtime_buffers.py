# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each binding rule: refused with its id, all at once, nothing executed, outputs untouched."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import BindError
from hipdnn_iree.jit.runtime.arrays import aligned_bytes, empty
from hipdnn_iree.jit.runtime.binding_rules import RULES, Range, judge, overlaps
from hipdnn_iree.jit.runtime.caller_memory import Pointer, describe
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.signature import ArgSpec

POISON = np.float32(-77.0)


class Exporter:
    """An object that speaks DLPack and nothing else, as a torch tensor would."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.exports = 0

    def __dlpack__(self, **keywords: Any) -> Any:
        self.exports += 1
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Stubborn(Exporter):
    """A tensor that does not export, as a torch one that requires grad."""

    def __dlpack__(self, **keywords: Any) -> Any:
        raise BufferError("can't export")


class Liar(Exporter):
    """Returns something that is no capsule."""

    def __dlpack__(self, **keywords: Any) -> Any:
        return 42


def fresh() -> dict[int, Any]:
    """Return well-formed buffers of the relu: 1 is the output, poisoned; 2 the input."""
    y, x = aligned_bytes(64).view(np.float32), aligned_bytes(64).view(np.float32)
    y[:] = POISON
    x[:] = np.arange(16)
    return {1: y.reshape(4, 4), 2: x.reshape(4, 4)}


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def float_view(count: int) -> Any:
    return np.zeros(count, np.float32)


def halves_of(memory: Any) -> dict[int, Any]:
    return {1: memory[:16].reshape(4, 4), 2: memory[8:24].reshape(4, 4)}


def contents(buffer: Any) -> Any:
    """Return a copy of what is in an array or exporter; None for an address."""
    if isinstance(buffer, (int, Pointer)):
        return None
    return np.array(getattr(buffer, "array", buffer))


# Name -> (what to change in the buffers, tensor at fault, rule, words of the message).
BAD: dict[str, tuple[Callable[[dict[int, Any]], dict[int, Any]], str, str, str]] = {
    "missing": (lambda b: {1: b[1]}, "x", "BIND-01", "a buffer for uid 2"),
    "unknown uid": (lambda b: {**b, 9: b[2]}, "uid 9", "BIND-02", "the uid of an input or output"),
    "none": (lambda b: {**b, 2: None}, "x", "BIND-03", "NoneType"),
    "list": (lambda b: {**b, 2: [1.0] * 16}, "x", "BIND-03", "builtins.list"),
    "bool": (lambda b: {**b, 2: True}, "x", "BIND-03", "builtins.bool"),
    "scalar": (lambda b: {**b, 2: np.float32(1)}, "x", "BIND-03", "numpy.float32"),
    "no export": (lambda b: {**b, 2: Stubborn(b[2])}, "x", "BIND-03", "can't export"),
    "no capsule": (lambda b: {**b, 2: Liar(b[2])}, "x", "BIND-03", "capsule"),
    "pointer of text": (lambda b: {**b, 2: Pointer("x")}, "x", "BIND-03", "Pointer of a str"),
    "float64": (lambda b: {**b, 2: b[2].astype(np.float64)}, "x", "BIND-04", "got double"),
    "big endian": (lambda b: {**b, 2: b[2].astype(">f4")}, "x", "BIND-04", "got >f4"),
    "complex": (lambda b: {**b, 2: b[2].astype("c8")}, "x", "BIND-04", "got complex64"),
    "objects": (lambda b: {**b, 2: b[2].astype(object)}, "x", "BIND-04", "got object"),
    "dlpack int32": (
        lambda b: {**b, 2: Exporter(b[2].astype(np.int32))},
        *("x", "BIND-04", "got int32"),
    ),
    "shape": (lambda b: {**b, 2: float_view(20).reshape(4, 5)}, "x", "BIND-05", "(4, 5)"),
    "rank": (lambda b: {**b, 2: float_view(16)}, "x", "BIND-05", "(16,)"),
    "no broadcast": (lambda b: {**b, 2: float_view(4).reshape(1, 4)}, "x", "BIND-05", "(1, 4)"),
    "nothing": (lambda b: {**b, 2: float_view(0).reshape(0, 4)}, "x", "BIND-05", "(0, 4)"),
    "transposed": (lambda b: {**b, 2: b[2].T}, "x", "BIND-06", "np.ascontiguousarray"),
    "reversed": (lambda b: {**b, 2: b[2][::-1]}, "x", "BIND-06", "strides (-4, 1)"),
    "padded": (
        lambda b: {**b, 2: float_view(24).reshape(4, 6)[:, :4]},
        *("x", "BIND-06", "(6, 1)"),
    ),
    "uneven": (
        lambda b: {**b, 2: np.zeros((4, 18), np.uint8)[:, :16].view(np.float32)},
        *("x", "BIND-06", "(18, 4) bytes"),
    ),
    "dlpack transposed": (lambda b: {**b, 2: Exporter(b[2].T)}, "x", "BIND-06", "copy=True"),
    "output transposed": (lambda b: {**b, 1: b[1].T}, "y", "BIND-06", "wanted strides (4, 1)"),
    "read-only output": (lambda b: {**b, 1: read_only(b[1])}, "y", "BIND-07", "read-only"),
    "read-only DLPack": (
        lambda b: {**b, 1: Exporter(read_only(b[1]))},
        *("y", "BIND-07", "read-only"),
    ),
    "null": (lambda b: {**b, 2: 0}, "x", "BIND-08", "0x0"),
    "null pointer": (lambda b: {**b, 1: Pointer(0, 64)}, "y", "BIND-08", "0x0"),
    "negative": (lambda b: {**b, 2: -64}, "x", "BIND-08", "-0x40"),
    "few bytes": (
        lambda b: {**b, 2: Pointer(b[2].ctypes.data, 63)},
        *("x", "BIND-09", "got 63 bytes; wanted at least 64 bytes"),
    ),
    "in place": (lambda b: {**b, 2: b[1]}, "y", "BIND-10", "the memory of x"),
    "in place by address": (
        lambda b: {1: b[1].ctypes.data, 2: b[1].ctypes.data},
        *("y", "BIND-10", "the memory of x"),
    ),
    "partial overlap": (
        lambda b: halves_of(float_view(24)),
        *("y", "BIND-10", "shared with x"),
    ),
    "overlap of address and array": (
        lambda b: {**b, 2: b[1].ctypes.data - 60},
        *("y", "BIND-10", "shared with x"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_buffer_is_refused_by_its_rule(relu: Any, name: str) -> None:
    change, port, rule, words = BAD[name]
    y = fresh()[1]
    good = {1: y, 2: fresh()[2]}
    bad = change(dict(good))
    before = contents(bad[1])
    for attempt in (relu.bind, relu.execute):
        with pytest.raises(BindError) as caught:
            attempt(bad)
        assert [(p.port, p.rule) for p in caught.value.problems] == [(port, rule)]
        assert words in str(caught.value)
        assert "1 problem with the buffers; nothing was executed" in str(caught.value)
    assert (y == POISON).all()
    if before is not None:
        np.testing.assert_array_equal(contents(bad[1]), before)


def test_elements_without_a_width_are_refused(relu: Any) -> None:
    with pytest.raises(BindError, match=r"BIND-04\] got \|V0"):
        relu.bind({**fresh(), 2: np.zeros((4, 4), "V0")})


def test_every_rule_has_a_negative_case() -> None:
    # Below; scalars in tests/provider/test_runtime_scalars.py.
    elsewhere = {"BIND-11", "BIND-12", "BIND-13", "BIND-14"}
    assert {rule for _, _, rule, _ in BAD.values()} | elsewhere == set(RULES)


def test_all_problems_are_named_at_once(layouts: Any) -> None:
    z, p, x, a, b = (empty(spec) for spec in layouts.signature.args[1:6])
    z.flags.writeable = False
    p[...] = 0  # uninitialised memory may hold what astype() warns of
    buffers = {2: z, 3: p.astype(np.float64), 4: x[:, :2], 5: np.asfortranarray(a), 6: 0, 8: b}
    with pytest.raises(BindError) as caught:
        layouts.bind(buffers)
    found = {(p.port, p.rule) for p in caught.value.problems}
    assert found == {
        *(("y", "BIND-01"), ("q", "BIND-01"), ("uid 8", "BIND-02"), ("z", "BIND-07")),
        *(("p", "BIND-04"), ("x", "BIND-05"), ("a", "BIND-06"), ("b", "BIND-08")),
    }
    assert "8 problems" in str(caught.value)


def test_unnamed_tensors_go_by_their_uid(relu_case: Any) -> None:
    relu_case = type(relu_case)(relu_case.text, relu_case.vmfb, relu_case.args, ())
    with pytest.raises(BindError, match=r"uid 2: \[BIND-01\]"):
        relu_case.load().bind({1: fresh()[1]})


@pytest.mark.parametrize(
    ("workspace", "rule", "words"),
    [
        (lambda n: np.zeros(n - 1, np.uint8), "BIND-11", "bytes; wanted at least"),
        (lambda n: Pointer(aligned_bytes(n).ctypes.data, n - 1), "BIND-11", "at least"),
        (lambda n: np.zeros((n, 2), np.uint8)[:, 0], "BIND-11", "contiguous bytes"),
        (lambda n: np.zeros(n, np.uint8)[::-1], "BIND-11", "contiguous bytes"),
        (lambda n: read_only(np.zeros(n, np.uint8)), "BIND-07", "read-only"),
        (lambda n: "text", "BIND-03", "builtins.str"),
    ],
)
def test_a_bad_workspace_is_refused(chain: Any, workspace: Any, rule: str, words: str) -> None:
    buffers = {uid: np.ones((48, 48), np.float32) for uid in (1, 2, 3)}
    buffers[1][:] = POISON
    for attempt in (chain.bind, chain.execute):
        with pytest.raises(BindError) as caught:
            attempt(buffers, workspace(chain.workspace_bytes))
        assert [(p.port, p.rule) for p in caught.value.problems] == [("workspace", rule)]
        assert words in str(caught.value)
    assert (buffers[1] == POISON).all()


@pytest.mark.parametrize("null", [0, Pointer(0), Pointer(0, 1 << 20)])
def test_a_null_workspace_is_one_of_the_pool(chain: Any, null: Any) -> None:
    """As C hosts and hipDNN's Python bindings pass it."""
    buffers = {uid: np.ones((48, 48), np.float32) for uid in (1, 2, 3)}
    chain.execute(buffers)
    expected = buffers[1].copy()
    addresses = {uid: array.ctypes.data for uid, array in buffers.items()}
    calls = (
        lambda: chain.execute(buffers, null),
        lambda: chain.execute(addresses, null),
        chain.bind(buffers, null),
        lambda: chain.execute_async(buffers, null).wait(),
        lambda: chain.execute_many([buffers, addresses], null),
    )
    for call in calls:
        buffers[1][:] = POISON
        call()
        assert (buffers[1] == expected).all()


def test_a_workspace_that_overlaps_a_tensor_is_refused(chain: Any) -> None:
    memory = aligned_bytes(chain.workspace_bytes + 48 * 48 * 4)
    tensor = memory[-48 * 48 * 4 :].view(np.float32).reshape(48, 48)
    others = {uid: np.ones((48, 48), np.float32) for uid in (1, 2, 3)}
    for uid in (1, 2):
        with pytest.raises(BindError, match="BIND-10") as caught:
            chain.bind({**others, uid: tensor}, memory)
        assert {p.rule for p in caught.value.problems} == {"BIND-10"}
        chain.bind({**others, uid: tensor}, memory[: chain.workspace_bytes])


def test_overlaps_finds_every_pair_and_lets_inputs_share() -> None:
    ranges = [("y", True, 0, 64), ("z", True, 32, 96), ("x", False, 90, 100), ("w", False, 90, 99)]
    found = {(p.port, p.got.rsplit(" ", 1)[-1]) for p in overlaps(starmap(Range, ranges))}
    assert found == {("z", "y"), ("z", "x"), ("z", "w")}
    apart = [("x", False, 0, 64), ("w", False, 0, 64), ("y", True, 64, 128)]
    assert list(overlaps(starmap(Range, apart))) == []


def test_overlaps_lets_a_pair_share_all_bytes_or_none() -> None:
    pairs = {(1, 2), (1, 3)}
    y, x, w = (
        Range("y", True, 64, 128, 1),
        Range("x", False, 64, 128, 2),
        Range("w", False, 64, 128),
    )
    assert not list(overlaps([y, x, x._replace(port="z", uid=3)], pairs))
    assert [p.port for p in overlaps([y, x, w], pairs)] == ["y"]
    for first, end in ((64, 96), (96, 160), (0, 256)):
        assert len(list(overlaps([y, x._replace(first=first, end=end)], pairs))) == 1


def spec(data_type: DataType, dims: tuple[int, ...], output: bool = False) -> ArgSpec:
    strides = tuple(int(np.prod(dims[i + 1 :], dtype=int)) for i in range(len(dims)))
    return ArgSpec(output=output, data_type=data_type, dims=dims, strides=strides, shape=dims)


def rules(about: ArgSpec, buffer: Any, copy: bool = False, device: Any = None) -> list[str]:
    found = describe(buffer, "t")
    assert isinstance(found, tuple), found
    return [p.rule for p in judge(about, found[0], "t", device or Device.open(), copy)]


@pytest.mark.parametrize("data_type", [DataType.INT4, DataType.FP4_E2M1, DataType.FP6_E2M3])
def test_packed_types_are_bytes_of_the_packed_size(data_type: DataType) -> None:
    about = spec(data_type, (4, 6))
    size = about.nbytes
    assert size == 24 * data_type.bits // 8
    assert rules(about, np.zeros(size, np.uint8)) == []
    assert rules(about, np.zeros(size, np.int8)) == []
    assert rules(about, Pointer(64, size)) == []
    assert rules(about, Pointer(64, size - 1)) == ["BIND-09"]
    assert rules(about, np.zeros(size - 1, np.uint8)) == ["BIND-05"]
    assert rules(about, np.zeros((4, 6), np.uint8)) == ["BIND-05"]
    assert rules(about, np.zeros(size * 2, np.uint8)[::2]) == ["BIND-06"]
    assert rules(about, np.zeros((4, 6), np.float32)) == ["BIND-04", "BIND-05"]


@pytest.mark.parametrize("data_type", [DataType.INT4, DataType.FP4_E2M1, DataType.FP6_E2M3])
def test_packed_types_are_taken_as_values_as_well(data_type: DataType) -> None:
    values = np.zeros((4, 6), getattr(ml_dtypes, data_type.value.numpy))
    about = spec(data_type, (4, 6))
    assert rules(about, values) == []
    assert rules(about, np.asfortranarray(values)) == []  # they are packed by a copy anyway
    assert rules(about, values[:3]) == ["BIND-05"]
    broadcast = ArgSpec(output=False, data_type=data_type, dims=(4, 6), strides=(0, 1), shape=(6,))
    assert rules(broadcast, values) == ["BIND-06"]  # which row would be taken?
    assert rules(broadcast, values[:1]) == []
    values.flags.writeable = False
    assert rules(spec(data_type, (4, 6), output=True), values) == ["BIND-07"]


def test_bytes_of_a_narrow_float_are_told_to_view() -> None:
    found = describe(np.zeros((4,), np.uint8), "t")
    about = spec(DataType.FP8_E4M3_FNUZ, (4,))
    (problem,) = judge(about, found[0], "t", Device.open(), False)
    assert ".view(float8_e4m3fnuz)" in problem.hint


LAID_OUT = {
    # strides of the tensor, what is done to an array of dims (2, 3, 4, 5): the hint
    "channels first given as they lie": ((60, 1, 15, 3), (0, 2, 3, 1), "x.transpose(0, 3, 1, 2)"),
    "another order of axes": ((60, 1, 15, 3), (3, 2, 1, 0), ""),
    "a square matrix has no order": ((60, 20, 5, 1), (0, 2, 3, 1), ""),
    "row by row": (
        (60, 1, 15, 3),
        (0, 1, 2, 3),
        "np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)",
    ),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_what_to_do_with_other_layouts(name: str) -> None:
    strides, axes, hint = LAID_OUT[name]
    about = ArgSpec(
        output=False,
        data_type=DataType.FLOAT,
        dims=(2, 3, 4, 5),
        strides=strides,
        shape=(2, 4, 5, 3) if strides[1] == 1 else (2, 3, 4, 5),
    )
    given = np.zeros((2, 3, 4, 5), np.float32).transpose(axes).copy()
    found = describe(given, "t")
    (problem,) = judge(about, found[0], "t", Device.open(), False)
    assert hint in problem.hint
    assert bool(hint) == bool(problem.hint)
    if hint:  # it is Python, and what it makes is taken
        words = problem.hint.removeprefix("dims are logical, strides say how they are laid out: ")
        code = words.removeprefix("give ").partition(" lays it out so")[0]
        assert rules(about, eval(code, {"np": np, "x": given})) == []


def test_a_copy_must_not_lose_values() -> None:
    about = ArgSpec(
        output=False, data_type=DataType.FLOAT, dims=(4, 6), strides=(0, 1), shape=(1, 6)
    )
    assert rules(about, np.broadcast_to(float_view(6), (4, 6))) == []
    assert rules(about, float_view(6).reshape(1, 6)) == []
    assert rules(about, float_view(24).reshape(4, 6)) == ["BIND-06"]
    assert rules(about, float_view(24).reshape(4, 6), copy=True) == ["BIND-06"]


class Elsewhere:
    """A device whose memory is not the host's, for judging only."""

    driver, memory, device_id, on_host = "hip", (10, 11), 1, False


@pytest.mark.parametrize("wrong", [(2, 0), (10, 0), (1, 0)])
def test_memory_of_another_device_is_refused(wrong: tuple[int, int]) -> None:
    about = spec(DataType.FLOAT, (4,))
    found = describe(aligned_bytes(16).view(np.float32), "t")
    given = found[0]._replace(device=wrong)
    assert [p.rule for p in judge(about, given, "t", Elsewhere(), False)] == ["BIND-12"]
    # copy=True brings host memory over, not that of another GPU.
    expected = [] if wrong == (1, 0) else ["BIND-12"]
    assert [p.rule for p in judge(about, given, "t", Elsewhere(), True)] == expected
    for right in ((10, 1), (11, 0)):
        given = found[0]._replace(device=right)
        assert list(judge(about, given, "t", Elsewhere(), False)) == []


def test_gpu_memory_in_other_strides_is_not_copied_by_the_host() -> None:
    about = spec(DataType.FLOAT, (4, 6))
    found = describe(np.zeros((6, 4), np.float32).T, "t")
    given = found[0]._replace(device=(10, 1), address=64)
    for copy in (False, True):
        (problem,) = judge(about, given, "t", Elsewhere(), copy)
        assert problem.rule == "BIND-06"
        assert "copy=True" not in problem.hint
    given = found[0]._replace(address=64)
    assert list(judge(about, given, "t", Elsewhere(), True)) == []


def test_a_gpu_address_must_be_aligned() -> None:
    assert rules(spec(DataType.FLOAT, (4,)), 0x1010, device=Elsewhere()) == ["BIND-13"]
    assert rules(spec(DataType.FLOAT, (4,)), 0x1040, device=Elsewhere()) == []


def test_gpu_memory_is_refused_by_a_cpu_plan() -> None:
    found = describe(aligned_bytes(16).view(np.float32), "t")
    given = found[0]._replace(device=(2, 0))
    problems = judge(spec(DataType.FLOAT, (4,)), given, "t", Device.open(), True)
    assert [p.rule for p in problems] == ["BIND-12"]
