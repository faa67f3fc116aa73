# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: SIM905 (long lists of words)
"""Modes: wire codes and spellings as hipDNN's schema lists them, and parsing."""

from __future__ import annotations

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.enums import ConvMode, ModeEnum, PointwiseMode, ReductionMode

# In the order of the codes, from 0 on; MAX and MIN carry "_OP" on the wire.
DATA_TYPES = """UNSET FLOAT HALF BFLOAT16 DOUBLE UINT8 INT32 INT8 FP8_E4M3 FP8_E5M2 FP8_E8M0
FP4_E2M1 FP6_E2M3 FP6_E3M2 INT4 INT64 BOOLEAN FP8_E4M3_FNUZ FP8_E5M2_FNUZ""".split()
CONV = ["UNSET", "CONVOLUTION", "CROSS_CORRELATION"]
REDUCTION = "NOT_SET ADD MUL MIN MAX AMAX AVG NORM1 NORM2 MUL_NO_ZEROS".split()
POINTWISE = """UNSET ABS ADD ADD_SQUARE BINARY_SELECT CEIL CMP_EQ CMP_GE CMP_GT CMP_LE CMP_LT
CMP_NEQ DIV ELU_BWD ELU_FWD ERF EXP FLOOR GELU_APPROX_TANH_BWD GELU_APPROX_TANH_FWD GELU_BWD
GELU_FWD GEN_INDEX IDENTITY LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR MAX MIN MUL NEG RECIPROCAL
RELU_BWD RELU_FWD RSQRT SIGMOID_BWD SIGMOID_FWD SIN SOFTPLUS_BWD SOFTPLUS_FWD SQRT SUB SWISH_BWD
SWISH_FWD TAN TANH_BWD TANH_FWD MOD POW COS""".split()
# PyTorch's ScalarType, in its order; the gaps are types that hipDNN has not.
SCALAR_TYPES = dict(
    enumerate(
        "uint8 int8 - int32 int64 float16 float32 float64 - - - bool - - - bfloat16 - - - - - - -"
        " float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz".split()
    )
) | {44: "float8_e8m0fnu"}

ENUMS: list[tuple[type[ModeEnum], list[str]]] = [
    (ConvMode, CONV),
    (ReductionMode, REDUCTION),
    (PointwiseMode, POINTWISE),
]


def test_wire_codes_of_data_types() -> None:
    assert [t.name for t in sorted(DataType, key=lambda t: t.wire)] == DATA_TYPES
    assert [t.wire for t in DataType] == list(range(len(DATA_TYPES)))
    assert [t.json for t in DataType] == [name.lower() for name in DATA_TYPES]


def test_codes_of_pytorch() -> None:
    for t in DataType:
        code = t.value.torch_code
        assert code == -1 or SCALAR_TYPES[code] == t.value.numpy
    assert {t.value.numpy for t in DataType if t.value.torch_code >= 0} == {
        name for name in SCALAR_TYPES.values() if name != "-"
    }


@pytest.mark.parametrize(("enum", "names"), ENUMS)
def test_wire_codes_of_modes(enum: type[ModeEnum], names: list[str]) -> None:
    assert [m.name for m in sorted(enum, key=lambda m: m.wire)] == names
    assert [m.wire for m in enum] == list(range(len(names)))
    for mode in enum:
        expected = mode.name if enum is ConvMode else mode.name.lower()
        with_op = enum is PointwiseMode and mode.name in ("MAX", "MIN")
        assert mode.json == (f"{expected}_op" if with_op else expected)
        assert repr(mode) == f"{enum.__name__}.{mode.name}"


@pytest.mark.parametrize("enum", [e for e, _ in ENUMS])
def test_parsing(enum: type[ModeEnum]) -> None:
    for mode in enum:
        spellings = {mode.json, mode.name, f"{mode.name}_OP", mode.json.removesuffix("_op")}
        for spelling in {s for t in spellings for s in (t, t.lower(), t.upper(), t.title())}:
            assert enum.parse(spelling) is mode
        assert enum.parse(mode) is mode
        assert enum.parse(mode.wire) is mode


@pytest.mark.parametrize("enum", [e for e, _ in ENUMS])
@pytest.mark.parametrize(
    "value", ["", "_op", "ad", "unset ", "not set", 99, -1, True, False, 1.0, None, [], {}, b"add"]
)
def test_what_is_no_mode(enum: type[ModeEnum], value: object) -> None:
    with pytest.raises(ValueError, match=rf"unknown {enum.__name__} .*known: "):
        enum.parse(value)  # type: ignore[arg-type]


def test_a_mode_of_another_enum_is_none_of_this_one() -> None:
    with pytest.raises(ValueError, match="unknown ReductionMode"):
        ReductionMode.parse(PointwiseMode.ADD)  # type: ignore[arg-type]


def test_arity_and_attributes() -> None:
    arity = {m.name: m.arity for m in PointwiseMode}
    binary = "ADD SUB MUL DIV ADD_SQUARE MAX MIN MOD POW LOGICAL_AND LOGICAL_OR".split()
    binary += [n for n in POINTWISE if n.startswith("CMP_") or n.endswith("_BWD")]
    assert {n for n, a in arity.items() if a == 2} == set(binary)
    assert {n for n, a in arity.items() if a == 3} == {"BINARY_SELECT"}
    assert {n for n, a in arity.items() if a == 0} == {"UNSET"}
    attributes = {
        "RELU": {"relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope"},
        "ELU": {"elu_alpha"},
        "SOFTPLUS": {"softplus_beta"},
        "SWISH": {"swish_beta"},
        "GEN_INDEX": {"axis"},
    }
    for mode in PointwiseMode:
        stem = mode.name.removesuffix("_FWD").removesuffix("_BWD")
        assert set(mode.attrs) == attributes.get(stem, set())
