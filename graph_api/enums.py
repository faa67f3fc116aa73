# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modes of the operations, in hipDNN's names, JSON spellings and wire codes.

Source: hipDNN's ``*.fbs`` schemas and JSON tables (``docs/architecture.md`` names the era).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Self, TypeVar

__all__ = [
    "AttentionImplementation",
    "ConvMode",
    "DiagonalAlignment",
    "ModeEnum",
    "MoeGroupedMatmulMode",
    "NormFwdPhase",
    "PaddingMode",
    "PointwiseMode",
    "ReductionMode",
    "ResampleMode",
    "ResizeCoordinates",
]


M = TypeVar("M", bound="ModeEnum")


@dataclass(frozen=True, slots=True)
class Mode:
    """JSON spelling and wire code of a mode."""

    json: str
    wire: int


@dataclass(frozen=True, slots=True)
class PwMode:
    """A pointwise mode.

    Attributes
    ----------
    json : str
        hipDNN's JSON spelling.
    wire : int
        hipDNN's wire code.
    arity : int
        Number of inputs (0 for UNSET).
    result : str
        ``"math"`` (in the compute type), ``"float"`` (the same, but the compute type must be a
        floating one), ``"bool"`` (1 or 0), ``"select"``, ``"index"`` or ``"backward"``.
    attrs : tuple of str
        Attributes that the mode reads.
    """

    json: str
    wire: int
    arity: int
    result: str = "math"
    attrs: tuple[str, ...] = ()


class ModeEnum(Enum):
    """Enum whose values carry ``json`` and ``wire``; ``parse`` is tolerant, never guessing."""

    @property
    def json(self) -> str:
        """hipDNN's JSON spelling."""
        return str(self.value.json)

    @property
    def wire(self) -> int:
        """hipDNN's wire code."""
        return int(self.value.wire)

    @classmethod
    def parse(cls, value: Self | str | int) -> Self:
        """Return the member for a member, a spelling in any case, or a wire code.

        ``max`` and ``max_op`` (``min`` and ``min_op``) are the same, as hipDNN's own tables
        differ there.

        Raises
        ------
        ValueError
            If the value is unknown; hipDNN would silently take the first entry instead.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, int | str) and not isinstance(value, bool):
            wanted = value.lower().removesuffix("_op") if isinstance(value, str) else value
            found: Self | None = _spellings(cls).get(wanted)
            if found is not None:
                return found
        known = ", ".join(m.json for m in cls)
        raise ValueError(f"unknown {cls.__name__} {value!r}; known: {known}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


@cache  # a graph may have thousands of nodes, each with a mode
def _spellings(enum: type[M]) -> Mapping[str | int, M]:
    found: dict[str | int, M] = {}
    for member in enum:
        for key in (member.wire, member.json.lower().removesuffix("_op"), member.name.lower()):
            found.setdefault(key, member)
    return found


class AttentionImplementation(ModeEnum):
    """hipDNN's hint how attention is to be implemented."""

    AUTO = Mode("AUTO", 0)
    COMPOSITE = Mode("COMPOSITE", 1)
    UNIFIED = Mode("UNIFIED", 2)


class ConvMode(ModeEnum):
    """Whether the filter is applied as it is (machine learning) or flipped (signal theory)."""

    UNSET = Mode("UNSET", 0)
    CONVOLUTION = Mode("CONVOLUTION", 1)
    CROSS_CORRELATION = Mode("CROSS_CORRELATION", 2)


class NormFwdPhase(ModeEnum):
    """Whether a normalisation also returns its statistics, for the gradient."""

    NOT_SET = Mode("NOT_SET", 0)
    INFERENCE = Mode("INFERENCE", 1)
    TRAINING = Mode("TRAINING", 2)


class DiagonalAlignment(ModeEnum):
    """In which corner of the logits the diagonal of a mask starts or ends."""

    TOP_LEFT = Mode("TOP_LEFT", 0)
    BOTTOM_RIGHT = Mode("BOTTOM_RIGHT", 1)


class ResampleMode(ModeEnum):
    """How an input is resampled."""

    NOT_SET = Mode("not_set", 0)
    MAXPOOL = Mode("maxpool", 1)
    AVGPOOL_EXCLUDE_PADDING = Mode("avgpool_exclude_padding", 2)
    AVGPOOL_INCLUDE_PADDING = Mode("avgpool_include_padding", 3)
    BILINEAR = Mode("bilinear", 4)
    NEAREST = Mode("nearest", 5)


class ResizeCoordinates(ModeEnum):
    """Sampling positions of a resized input, by ONNX's names.

    Of our own: hipDNN's format has no field for it, so the codes are ours.
    """

    HALF_PIXEL = Mode("half_pixel", 0)
    ALIGN_CORNERS = Mode("align_corners", 1)
    ASYMMETRIC = Mode("asymmetric", 2)


class PaddingMode(ModeEnum):
    """The value of padding: what a window reads outside of the input."""

    NOT_SET = Mode("padding_not_set", 0)
    NEG_INF_PAD = Mode("neg_inf_pad", 1)
    ZERO_PAD = Mode("zero_pad", 2)
    EDGE_VAL_PAD = Mode("edge_val_pad", 3)


class MoeGroupedMatmulMode(ModeEnum):
    """Which rows a mixture of experts' matmul reads and writes."""

    NONE = Mode("none", 0)
    GATHER = Mode("gather", 1)
    SCATTER = Mode("scatter", 2)


class ReductionMode(ModeEnum):
    """What a reduction computes over the reduced dims."""

    NOT_SET = Mode("not_set", 0)
    ADD = Mode("add", 1)
    MUL = Mode("mul", 2)
    MIN = Mode("min", 3)
    MAX = Mode("max", 4)
    AMAX = Mode("amax", 5)
    AVG = Mode("avg", 6)
    NORM1 = Mode("norm1", 7)
    NORM2 = Mode("norm2", 8)
    MUL_NO_ZEROS = Mode("mul_no_zeros", 9)


_RELU = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope")
_ELU, _SOFTPLUS, _SWISH = ("elu_alpha",), ("softplus_beta",), ("swish_beta",)


class PointwiseMode(ModeEnum):
    """Elementwise functions; MOD, POW and COS have presumed wire codes (the newest frontend's)."""

    UNSET = PwMode("unset", 0, 0)
    ABS = PwMode("abs", 1, 1)
    ADD = PwMode("add", 2, 2)
    ADD_SQUARE = PwMode("add_square", 3, 2)
    BINARY_SELECT = PwMode("binary_select", 4, 3, "select")
    CEIL = PwMode("ceil", 5, 1)
    CMP_EQ = PwMode("cmp_eq", 6, 2, "bool")
    CMP_GE = PwMode("cmp_ge", 7, 2, "bool")
    CMP_GT = PwMode("cmp_gt", 8, 2, "bool")
    CMP_LE = PwMode("cmp_le", 9, 2, "bool")
    CMP_LT = PwMode("cmp_lt", 10, 2, "bool")
    CMP_NEQ = PwMode("cmp_neq", 11, 2, "bool")
    DIV = PwMode("div", 12, 2)
    ELU_BWD = PwMode("elu_bwd", 13, 2, "backward", _ELU)
    ELU_FWD = PwMode("elu_fwd", 14, 1, "float", _ELU)
    ERF = PwMode("erf", 15, 1, "float")
    EXP = PwMode("exp", 16, 1, "float")
    FLOOR = PwMode("floor", 17, 1)
    GELU_APPROX_TANH_BWD = PwMode("gelu_approx_tanh_bwd", 18, 2, "backward")
    GELU_APPROX_TANH_FWD = PwMode("gelu_approx_tanh_fwd", 19, 1, "float")
    GELU_BWD = PwMode("gelu_bwd", 20, 2, "backward")
    GELU_FWD = PwMode("gelu_fwd", 21, 1, "float")
    GEN_INDEX = PwMode("gen_index", 22, 1, "index", ("axis",))
    IDENTITY = PwMode("identity", 23, 1)
    LOG = PwMode("log", 24, 1, "float")
    LOGICAL_AND = PwMode("logical_and", 25, 2, "bool")
    LOGICAL_NOT = PwMode("logical_not", 26, 1, "bool")
    LOGICAL_OR = PwMode("logical_or", 27, 2, "bool")
    MAX = PwMode("max_op", 28, 2)
    MIN = PwMode("min_op", 29, 2)
    MUL = PwMode("mul", 30, 2)
    NEG = PwMode("neg", 31, 1)
    RECIPROCAL = PwMode("reciprocal", 32, 1, "float")
    RELU_BWD = PwMode("relu_bwd", 33, 2, "backward", _RELU)
    RELU_FWD = PwMode("relu_fwd", 34, 1, "math", _RELU)
    RSQRT = PwMode("rsqrt", 35, 1, "float")
    SIGMOID_BWD = PwMode("sigmoid_bwd", 36, 2, "backward")
    SIGMOID_FWD = PwMode("sigmoid_fwd", 37, 1, "float")
    SIN = PwMode("sin", 38, 1, "float")
    SOFTPLUS_BWD = PwMode("softplus_bwd", 39, 2, "backward", _SOFTPLUS)
    SOFTPLUS_FWD = PwMode("softplus_fwd", 40, 1, "float", _SOFTPLUS)
    SQRT = PwMode("sqrt", 41, 1, "float")
    SUB = PwMode("sub", 42, 2)
    SWISH_BWD = PwMode("swish_bwd", 43, 2, "backward", _SWISH)
    SWISH_FWD = PwMode("swish_fwd", 44, 1, "float", _SWISH)
    TAN = PwMode("tan", 45, 1, "float")
    TANH_BWD = PwMode("tanh_bwd", 46, 2, "backward")
    TANH_FWD = PwMode("tanh_fwd", 47, 1, "float")
    MOD = PwMode("mod", 48, 2)
    POW = PwMode("pow", 49, 2, "float")
    COS = PwMode("cos", 50, 1, "float")

    @property
    def arity(self) -> int:
        """Number of inputs."""
        return int(self.value.arity)

    @property
    def result(self) -> str:
        """``math``, ``float``, ``bool``, ``select``, ``index`` or ``backward``."""
        return str(self.value.result)

    @property
    def attrs(self) -> tuple[str, ...]:
        """Attributes that the mode reads."""
        return tuple(self.value.attrs)
