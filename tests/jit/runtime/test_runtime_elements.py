# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element tables, aligned arrays, packing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit.runtime import arrays, elements
from hipdnn_iree.jit.signature import ArgSpec
from hypothesis import given
from hypothesis import strategies as st

REAL = [t for t in DataType if t is not DataType.UNSET]
PACKED = [t for t in REAL if t.bits < 8]


@pytest.mark.parametrize("data_type", REAL)
def test_every_type_has_numpy_storage_of_its_width(data_type: DataType) -> None:
    dtype = elements.numpy_dtype(data_type)
    if elements.is_packed(data_type):
        assert dtype == np.uint8
    else:
        assert dtype.itemsize * 8 == data_type.bits
    assert elements.data_type(elements.value_dtype(data_type)) is data_type


@pytest.mark.parametrize("data_type", REAL)
def test_hal_types_have_the_width_of_the_data_type(data_type: DataType) -> None:
    from iree.runtime import HalElementType

    kind = elements.element_type(data_type)
    if elements.is_packed(data_type):
        assert kind is None  # raw bytes
    else:
        assert HalElementType.dense_byte_count(kind) * 8 == data_type.bits


def test_unset_and_foreign_types_have_no_row() -> None:
    with pytest.raises(ValueError, match="without a data type"):
        elements.numpy_dtype(DataType.UNSET)
    assert elements.element_type(DataType.UNSET) is None
    for dtype in (np.dtype(">f4"), np.dtype("c8"), np.dtype("i2"), np.dtype(ml_dtypes.int2)):
        assert elements.data_type(dtype) is None
    assert elements.from_dlpack(2, 32, 4) is None  # a vector type
    assert elements.from_dlpack(0, 4, 1) is None  # packed or not: DLPack does not say
    assert elements.from_dlpack(4, 16, 1) is DataType.BFLOAT16


def spec(data_type: DataType, dims: tuple[int, ...], strides: tuple[int, ...]) -> ArgSpec:
    span = arrays.span(dims, strides)
    return ArgSpec(output=False, data_type=data_type, dims=dims, strides=strides, shape=(span,))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Any permutation of dims, some broadcast, some padded."""
    dims = tuple(draw(st.lists(st.integers(1, 5), min_size=0, max_size=4)))
    strides = [0] * len(dims)
    step = 1
    for axis in draw(st.permutations(range(len(dims)))):
        if draw(st.integers(0, 4)) == 0:
            continue  # broadcast
        strides[axis] = step
        step = step * dims[axis] + draw(st.sampled_from([0, 0, 0, 3]))
    return dims, tuple(strides)


@given(layouts(), st.sampled_from(REAL), st.integers(0, 2**32 - 1))
def test_pack_then_unpack_is_the_identity(
    layout: tuple[tuple[int, ...], tuple[int, ...]], data_type: DataType, seed: int
) -> None:
    about = spec(data_type, *layout)
    kept = tuple(1 if s == 0 else d for d, s in zip(about.dims, about.strides, strict=True))
    rng = np.random.default_rng(seed)
    if data_type.is_integer:
        low = 0 if data_type is DataType.UINT8 else -8
        values = rng.integers(low, 8, kept)
    elif data_type.is_bool:
        values = rng.integers(0, 2, kept).astype(bool)
    else:
        values = rng.choice([0.5, 1.0, 2.0], kept)  # exact in every float type
    memory = arrays.pack(about, values)
    assert memory.ctypes.data % 64 == 0
    assert memory.dtype == elements.numpy_dtype(data_type)
    back = arrays.unpack(about, memory)
    assert back.shape == about.dims
    np.testing.assert_array_equal(
        back.astype(np.float64), np.broadcast_to(values, about.dims).astype(np.float64)
    )


def test_four_bit_values_lie_low_nibble_first() -> None:
    about = spec(DataType.INT4, (4,), (1,))
    assert arrays.pack(about, [1, 2, -1, -8]).tolist() == [0x21, 0x8F]
    codes = np.array([1, 2, 15, 8], np.uint8)
    assert arrays.pack(spec(DataType.FP4_E2M1, (4,), (1,)), codes).tolist() == [0x21, 0x8F]


def test_pack_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"-8\.\.7"):
        arrays.pack(spec(DataType.INT4, (2,), (1,)), [0, 8])
    with pytest.raises(ValueError, match=r"\(3,\)"):
        arrays.pack(spec(DataType.FLOAT, (2,), (1,)), [0, 1, 2])


@given(layouts(), st.sampled_from(REAL))
def test_empty_has_the_strides_and_alignment(
    layout: tuple[tuple[int, ...], tuple[int, ...]], data_type: DataType
) -> None:
    about = spec(data_type, *layout)
    array = arrays.empty(about)
    assert array.ctypes.data % arrays.ALIGNMENT == 0
    if data_type in PACKED:
        assert array.shape == (about.nbytes,)
        return
    assert array.shape == about.dims
    assert array.flags.writeable
    assert array.strides == tuple(s * array.itemsize for s in about.strides)
