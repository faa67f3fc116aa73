# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small builder over torch-mlir's op classes: typed values, interned constants, conversions.

Operands are given as Python values where Torch wants constants::

    b.call(T.AtenSumDimIntListOp, shape, dtype, x, [2, 3], True, None)

Nothing here knows of graphs; SSA names never exist, so names of tensors cannot clash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import torch as T  # noqa: N812 (the dialect is written everywhere)

from ...graph_api.dtypes import DataType
from ...graph_api.errors import CompileError
from ...graph_api.tensor import Scalar
from ..code_plan import NodePlan
from ..ops.multiply_types import is_code
from ..target import Target
from ..workarounds import strikes
from . import integers, narrow
from .dims import Dim, broadcast
from .parts import is_part

if TYPE_CHECKING:
    from ..compiler.client import Compiler

__all__ = ["MOST_OPS", "Builder", "T", "Value"]

Ints = tuple[int, ...]
BOOL, F32, F64 = DataType.BOOLEAN, DataType.FLOAT, DataType.DOUBLE


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value with its static shape and element type.

    ``order`` is the memory order (outermost dim first) of a function argument seen with logical
    dims; it is empty for every computed value, whose layout the compiler chooses.  ``repeated``
    means that the argument is broadcast to its logical dims; ``argument`` that it is one, so that
    the order is a fact.
    """

    ssa: Any
    shape: Ints
    dtype: DataType
    order: Ints = ()
    repeated: bool = False
    argument: bool = False

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)


MOST_OPS = 200_000  # of a module: far beyond what is compiled within an hour


class Builder:
    """Creates ops at the current insertion point.

    Parameters
    ----------
    target : Target
        What the code is for.
    compiler : Compiler, optional
        Checks the functions of custom ops; by default one with the default options.

    Attributes
    ----------
    extents : dict of str to callable
        How to make the run-time value of each dynamic dim.
    node_plan : NodePlan
        What is decided about the node that is being lowered.
    contents : callable
        Returns what the memory of an output at a port of that node holds, to be written part by
        part and not to be read: the value in memory order, and the order.
    results : dict of str to tuple of int
        The dims of that node's results, by port.
    """

    def __init__(self, target: Target, compiler: Compiler | None = None) -> None:
        self.target = target
        self.compiler = compiler
        self.extents: dict[str, Callable[[], Any]] = {}
        self.node_plan = NodePlan()
        self.contents: Callable[[str], tuple[Value, Ints]]
        self.results: dict[str, Ints] = {}
        self._made = 0
        self._types: dict[tuple[str, DataType, bool], Any] = {}
        self._constants: dict[tuple[object, object], Any] = {}

    # ---------------------------------------------------------------- decisions

    @property
    def strategy(self) -> str:
        """The strategy of the node that is being lowered; empty where its op has one only."""
        return self.node_plan.strategy

    def avoids(self, defect: str) -> bool:
        """Return whether the node's plan avoids a defect of the compiler."""
        return defect in self.node_plan.workarounds

    def strikes(self, defect: str, *facts: Any, **more: Any) -> bool:
        """Return whether a defect would strike what is about to be emitted."""
        return strikes(defect, self.target, *facts, **more)

    # ---------------------------------------------------------------- types and constants

    def type(self, shape: Sequence[int], dtype: DataType, *, mutable: bool = False) -> Any:
        """Return ``!torch.vtensor<[shape],dtype>`` (``!torch.tensor`` when mutable)."""
        dims = ",".join(map(str, shape))
        key = (dims, dtype, mutable)
        if key not in self._types:
            kind = "tensor" if mutable else "vtensor"
            self._types[key] = ir.Type.parse(f"!torch.{kind}<[{dims}],{narrow.storage(dtype)}>")
        return self._types[key]

    def constant(self, value: object) -> Any:
        """Return the SSA constant for a bool, int, float, str, None or list of ints."""
        if isinstance(value, Dim):
            return self._intern((Dim, value.key), lambda: self._extent(value))
        if isinstance(value, list | tuple):
            items = [self.constant(v) for v in value]
            key = tuple(v.key if isinstance(v, Dim) else v for v in value)
            return self._intern((list, key), lambda: _int_list(items))
        makers = {
            bool: T.ConstantBoolOp,
            int: T.ConstantIntOp,
            float: T.ConstantFloatOp,
            str: T.ConstantStrOp,
        }
        if value is None:
            return self._intern((type(None), None), lambda: T.ConstantNoneOp().result)
        # repr keeps 0.0 and -0.0 apart, which compare equal.
        return self._intern((type(value), repr(value)), lambda: makers[type(value)](value).result)

    def _extent(self, dim: Dim) -> Any:
        """Return the run-time value of an extent."""
        found = None
        for name in dim.factors:
            one = self._intern((Dim, name), lambda name=name: self.extents[name]().result)
            found = one if found is None else T.AtenMulIntOp(found, one).result
        return found if dim.scale == 1 else T.AtenMulIntOp(found, self.constant(dim.scale)).result

    def _intern(self, key: tuple[object, object], make: Any) -> Any:
        # One straight-line block: a constant made earlier dominates every later use.
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def literal(self, value: Scalar, dtype: DataType, shape: Sequence[int] = (1,)) -> Value:
        """Return a tensor filled with a number, rounded to ``dtype`` once."""
        if any(isinstance(d, Dim) for d in shape):
            one = self.literal(value, dtype, [1 if isinstance(d, Dim) else d for d in shape])
            return self.expand(one, shape)
        dims = "x".join(map(str, shape)) + ("x" if shape else "")
        text = _literal_text(value, dtype)
        attribute = ir.Attribute.parse(f"dense<{text}> : tensor<{dims}{narrow.storage(dtype)}>")
        result_type = self.type(shape, dtype)
        op = T.ValueTensorLiteralOp(attribute, results=[result_type])
        return Value(op.result, tuple(shape), dtype)

    def table(self, values: np.ndarray[Any, Any], dtype: DataType) -> Value:
        """Return a tensor of these numbers, each rounded to a float type once."""
        raw = _rounded(values, dtype).tobytes().hex().upper()
        dims = "x".join(map(str, values.shape))
        text = f'dense<"0x{raw}"> : tensor<{dims}x{narrow.storage(dtype)}>'
        op = T.ValueTensorLiteralOp(
            ir.Attribute.parse(text), results=[self.type(values.shape, dtype)]
        )
        return Value(op.result, tuple(values.shape), dtype)

    def number_type(self, dtype: DataType) -> Any:
        """Return the type of an argument that is one number: 64 bits, an integer or a float."""
        return ir.Type.parse("!torch.float" if dtype.is_float else "!torch.int")

    def number(self, ssa: Any, dtype: DataType, shape: Sequence[int]) -> Value:
        """Return a number argument, which ``dtype`` can hold, as a tensor of one element."""
        wide = F64 if dtype.is_float else DataType.INT64
        x = Value(T.PrimNumToTensorScalarOp(self.type((), wide), ssa).result, (), wide)
        if dtype.is_bool:
            x = self.truth(x)
        elif dtype is not wide:
            # Narrow floats by way of float32, which every target converts directly; there those
            # of 8 bits stay, as they are for storage.
            x = self.cast(x, F32) if dtype.is_float else x
            same = x.dtype is dtype or is_code(dtype)
            x = x if same else self.cast(x, dtype)
        return self.reshape(x, shape)

    def element(self, value: float, dtype: DataType) -> float | int:
        """Return a number as elements of a type stand in the IR: narrow floats as codes.

        It is rounded here: the compiler folds only conversions that are exact, and has no
        lowering for those that it leaves outside of a kernel (W-029).
        """
        if is_code(dtype):
            return int(_literal_text(value, dtype))
        return float(_rounded(value, dtype)) if dtype.is_float else int(value)

    # ---------------------------------------------------------------- ops

    def call(self, op: Any, shape: Sequence[int], dtype: DataType, *operands: object) -> Value:
        """Create an op with one tensor result; Python operands become constants.

        Raises
        ------
        CompileError
            If the code becomes larger than the compiler can take.
        """
        self._made += 1
        if self._made > MOST_OPS:
            raise CompileError(f"the code has more than {MOST_OPS} ops", stage="lower")
        values = [v.ssa if isinstance(v, Value) else self.constant(v) for v in operands]
        return Value(op(self.type(shape, dtype), *values).result, tuple(shape), dtype)

    def unary(self, op: Any, x: Value, *operands: object) -> Value:
        """Create an elementwise op whose result has x's type."""
        return self.call(op, x.shape, x.dtype, x, *operands)

    def binary(self, op: Any, a: Value, b: Value, *operands: object) -> Value:
        """Create an elementwise op on two values of one type, broadcasting as NumPy does."""
        return self.call(op, broadcast(a.shape, b.shape), a.dtype, a, b, *operands)

    def compare(self, op: Any, a: Value, b: Value) -> Value:
        """Create a comparison; the result is boolean."""
        return self.call(op, broadcast(a.shape, b.shape), BOOL, a, b)

    def add(self, a: Value, b: Value) -> Value:
        """Return a + b."""
        return self.binary(T.AtenAddTensorOp, a, b, 1)

    def sub(self, a: Value, b: Value) -> Value:
        """Return a - b."""
        return self.binary(T.AtenSubTensorOp, a, b, 1)

    def mul(self, a: Value, b: Value) -> Value:
        """Return a · b."""
        return self.binary(T.AtenMulTensorOp, a, b)

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """Return a where the condition holds, else b."""
        shape = broadcast(condition.shape, a.shape, b.shape)
        return self.call(T.AtenWhereSelfOp, shape, a.dtype, condition, a, b)

    def negate(self, x: Value) -> Value:
        """Return -x; integers wrap around."""
        if x.dtype.is_float:
            return self.unary(T.AtenNegOp, x)
        return self.sub(self.literal(0, x.dtype, ()), x)  # W-104

    def maximum(self, x: Value, y: Value) -> Value:
        """Return the larger of two values; NaN where either is."""
        return self._extreme(x, y, T.AtenMaximumOp, T.AtenGeTensorOp)

    def minimum(self, x: Value, y: Value) -> Value:
        """Return the smaller of two values; NaN where either is."""
        return self._extreme(x, y, T.AtenMinimumOp, T.AtenLeTensorOp)

    def _extreme(self, x: Value, y: Value, op: Any, comparison: Any) -> Value:
        if not x.dtype.is_float:
            return self.binary(op, x, y)
        # W-100: Torch's ops lose a NaN on the left.
        chosen = self.compare(comparison, x, y)
        nan = self.compare(T.AtenNeTensorOp, x, x)
        return self.where(self.compare(T.AtenLogicalOrOp, chosen, nan), x, y)

    def clipped(self, x: Value, limit: float, *, above: bool) -> Value:
        """Return x, or the limit where x is beyond it; NaN stays (unlike Torch's clamp, W-100)."""
        bound = self.literal(limit, x.dtype, ())
        beyond = T.AtenGeTensorOp if above else T.AtenLeTensorOp
        return self.where(self.compare(beyond, x, bound), bound, x)

    def scale(self, x: Value, factor: float) -> Value:
        """Return x times a number, leaving x alone for 1."""
        return x if factor == 1 else self.mul(x, self.literal(factor, x.dtype, ()))

    def mean(self, total: Value, count: int) -> Value:
        """Return a sum over ``count`` elements divided by that number, known now or later."""
        if not isinstance(count, Dim):
            return self.scale(total, 1 / count)
        whole = self.type((), DataType.INT64)
        read = T.PrimNumToTensorScalarOp(whole, self.constant(count)).result
        divisor = self.convert(Value(read, (), DataType.INT64), total.dtype)
        return self.binary(T.AtenDivTensorOp, total, divisor)

    def truth(self, x: Value) -> Value:
        """Return x ≠ 0."""
        if x.dtype is BOOL:
            return x
        if is_code(x.dtype):
            x = narrow.decode(self, x)
        return self.call(T.AtenNeScalarOp, x.shape, BOOL, x, 0.0 if x.dtype.is_float else 0)

    def copy(self, x: Value) -> Value:
        """Return x by an op that computes, for outputs that would be an input unchanged (W-001)."""
        if is_code(x.dtype):
            return self.relabel(self.copy(self.relabel(x, DataType.UINT8)), x.dtype)
        if x.dtype.is_bool:
            inverted = self.unary(T.AtenLogicalNotOp, x)
            return self.unary(T.AtenLogicalNotOp, inverted)
        if x.dtype.bits < 32 and not x.dtype.is_float:
            wide = self.cast(x, DataType.INT32)  # W-036
            return self.cast(self.unary(T.AtenMulScalarOp, wide, 1), x.dtype)
        return self.unary(T.AtenMulScalarOp, x, 1)

    # ---------------------------------------------------------------- shapes

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Return x with its dims in this order; the identity is never emitted."""
        if list(order) == list(range(x.rank)):
            return x
        shape = tuple(x.shape[a] for a in order)
        return self.call(T.AtenPermuteOp, shape, x.dtype, x, list(order))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return x with another shape of as many elements."""
        if tuple(shape) == x.shape:
            return x
        # What follows from the others is left to the compiler, which then knows that it does.
        open_dims = [isinstance(d, Dim) for d in shape]
        asked = [
            -1 if d and sum(open_dims) == 1 else n for d, n in zip(open_dims, shape, strict=True)
        ]
        return self.call(T.AtenViewOp, shape, x.dtype, x, asked)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Return x repeated along dims of extent 1."""
        if tuple(shape) == x.shape:
            return x
        kept = (1,) * (len(shape) - x.rank) + x.shape
        asked = [
            -1 if isinstance(a, Dim) and a == n else n for a, n in zip(kept, shape, strict=True)
        ]
        return self.call(T.AtenExpandOp, shape, x.dtype, x, asked, False)

    def slice(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Return x[start:stop:step] along an axis; the whole is never emitted."""
        if (start, step) == (0, 1) and stop == x.shape[axis]:
            return x
        shape = list(x.shape)
        shape[axis] = (stop - start + step - 1) // step
        return self.call(T.AtenSliceTensorOp, shape, x.dtype, x, axis, start, stop, step)

    def concatenate(self, parts: Sequence[Value], axis: int, *, stored: bool = False) -> Value:
        """Return the parts concatenated along an axis.

        ``stored``: on CPUs each part is stored in its place (W-152).
        """
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        if stored and self.strikes("W-152", parts[0].dtype, shape, axis):
            return self._side_by_side(parts, shape, axis)
        element = narrow.storage(parts[0].dtype)
        listed = T.PrimListConstructOp(
            ir.Type.parse(f"!torch.list<vtensor<*,{element}>>")
            if len({p.shape for p in parts}) > 1
            else ir.Type.parse(
                f"!torch.list<vtensor<[{','.join(map(str, parts[0].shape))}],{element}>>"
            ),
            [p.ssa for p in parts],
        ).result
        result = T.AtenCatOp(self.type(shape, parts[0].dtype), listed, self.constant(axis)).result
        return Value(result, tuple(shape), parts[0].dtype)

    def _side_by_side(self, parts: Sequence[Value], shape: Sequence[int], axis: int) -> Value:
        dtype, at = parts[0].dtype, 0
        unset = (None,) * 4  # layout, device, pinned memory, memory format
        y = self.call(
            T.AtenEmptyMemoryFormatOp, shape, dtype, list(shape), dtype.value.torch_code, *unset
        )
        for part in parts:
            end = at + part.shape[axis]
            y = self.call(T.AtenSliceScatterOp, shape, dtype, y, part, axis, at, end, 1)
            at = end
        return y

    def pad(
        self, x: Value, before: Sequence[int], after: Sequence[int], *, fused: bool = False
    ) -> Value:
        """Return x with its last ``len(before)`` dims padded with zeros.

        ``fused``: a convolution of a filter larger than 1 takes the result.  Otherwise
        W-054 asks for a concatenation with zeros.
        """
        if not any(before) and not any(after):
            return x
        first = x.rank - len(before)
        if not fused and self.strikes("W-054"):
            for axis, (low, high) in enumerate(zip(before, after, strict=True), first):
                ends = [self._zeros(x, axis, n) for n in (low, high)]
                parts = [*ends[0], x, *ends[1]]
                x = self.concatenate(parts, axis)
            return x
        shape = list(x.shape)
        amounts: list[int] = []
        for i in reversed(range(len(before))):  # Torch counts from the last dim
            shape[first + i] += before[i] + after[i]
            amounts += [before[i], after[i]]
        zero = self.element(0.0, x.dtype)
        return self.call(T.AtenConstantPadNdOp, shape, x.dtype, x, amounts, zero)

    def _zeros(self, x: Value, axis: int, count: int) -> list[Value]:
        shape = [count if i == axis else d for i, d in enumerate(x.shape)]
        return [self.literal(0, x.dtype, shape)] if count else []

    def flip(self, x: Value, axes: Sequence[int]) -> Value:
        """Return x reversed along the axes."""
        return self._reversed(self.standing_alone(x), axes)

    def _reversed(self, x: Value, axes: Sequence[int]) -> Value:
        return self.unary(T.AtenFlipOp, x, list(axes))

    def standing_alone(self, x: Value) -> Value:
        """Return x as single elements of it may be read, by indices or in reverse.

        A part of a larger tensor, such as an operand with gaps, is copied first (W-080).
        """
        return self.materialise(x) if self._lies_apart(x) else x

    def _lies_apart(self, x: Value) -> bool:
        return self.strikes("W-080") and is_part(x.ssa)

    def materialise(self, x: Value) -> Value:
        """Return a copy of x that the compiler lays out afresh.

        A transpose is normally folded into its consumer.  Where that spoils the consumer's code,
        slicing x in two and concatenating the parts keeps it out (measured: nothing lighter does).
        """
        # An extent that is known later cannot be halved.
        least = 2 if self.strikes("W-111") or self._lies_apart(x) else 1
        known = ((i, d) for i, d in enumerate(x.shape) if not isinstance(d, Dim) and d >= least)
        axis, extent = next(known, (0, 1))
        if half := extent // 2:
            parts = [self.slice(x, axis, 0, half), self.slice(x, axis, half, extent)]
            return self.concatenate(parts, axis)
        # To reverse an extent of 1 is folded away.
        long = next((i for i in reversed(range(x.rank)) if x.shape[i] != 1), x.rank - 1)
        return self._reversed(self._reversed(x, [long]), [long])

    # ---------------------------------------------------------------- conversion

    def convert(self, x: Value, dtype: DataType) -> Value:
        """Return x in another type.

        Float to integer truncates toward zero and saturates; integer to a narrower integer
        saturates; anything to BOOLEAN is ``≠ 0``.  (What a C cast leaves undefined is defined
        here; NaN to integer is not.)
        """
        if x.dtype is dtype:
            return x
        if dtype.is_bool:
            return self.truth(x)
        if is_code(x.dtype):
            return self.convert(narrow.decode(self, x), dtype)
        if is_code(dtype):
            # float32 holds every integer that is not too large for the type anyway, but for E8M0.
            wide = F64 if x.dtype in (F64, DataType.INT32, DataType.INT64) else F32
            return narrow.encode(self, self.convert(x, wide), dtype)
        if dtype.is_integer and not x.dtype.is_bool and not dtype.holds(x.dtype):
            return self._saturate(x, dtype)
        if dtype is DataType.BFLOAT16 and not x.dtype.is_float:
            return self.convert(integers.as_float(self, x), dtype)
        if self.strikes("W-147", x.dtype, dtype) and integers.are_converted(x.ssa):
            x = integers.shielded(self, x)
        if self.strikes("W-016", x.dtype, dtype):
            return self._halved(x)
        if self.strikes("W-106", x.dtype, dtype):
            return self._rounded_once(x, dtype)
        return self.cast(x, dtype)

    def _halved(self, x: Value) -> Value:
        """Return doubles as halves, also those below 2^-14 (W-016).

        They are multiples of 2^-24, which float32 holds as well; rounding all by way of it would
        round twice.
        """
        step = self.literal(2.0**-24, F64, ())
        scaled = self.mul(x, self.literal(2.0**24, F64, ()))
        grid = self.mul(self.unary(T.AtenRoundOp, scaled), step)
        small = self.cast(self.cast(grid, F32), DataType.HALF)
        size = self.unary(T.AtenAbsOp, x)
        below = self.compare(T.AtenLtTensorOp, size, self.literal(2.0**-14, F64, ()))
        # A CPU with AVX-512 goes by way of float32 beyond, too.
        return self.where(below, small, self._rounded_once(x, DataType.HALF))

    def _rounded_once(self, x: Value, dtype: DataType) -> Value:
        """Return doubles as bfloat16 or half (W-106: the compiler goes by way of float32).

        Veltkamp's split leaves the nearest number of few bits, which the conversion then keeps.
        Of two that are as near it may take either; such a number has one bit more, and float32
        holds it.
        """
        # 2^64 lower, nothing overflows.
        large = self.call(T.AtenGtScalarOp, x.shape, BOOL, self.unary(T.AtenAbsOp, x), 1.0)
        one = self.literal(1.0, F64, ())
        scaled = self.mul(x, self.where(large, self.literal(2.0**-64, F64, ()), one))
        near, exact = (self._split(scaled, 52 - dtype.value.mantissa - n) for n in (0, 1))
        # No comparison holds where x is not finite: it stays.
        low, high = (self.compare(op, exact, scaled) for op in (T.AtenLtTensorOp, T.AtenGtTensorOp))
        rounded = self.mul(near, self.where(large, self.literal(2.0**64, F64, ()), one))
        inexact = self.compare(T.AtenLogicalOrOp, low, high)
        return self.cast(self.where(inexact, rounded, x), dtype)

    def _split(self, x: Value, bits: int) -> Value:
        """Return doubles without their last bits, rounded to nearest (Veltkamp).

        No product is rounded, so that it does not matter whether the compiler fuses it with a sum.
        """
        moved = self.add(self.scale(x, 2.0**bits), x)
        return self.sub(moved, self.sub(moved, x))

    def cast(self, x: Value, dtype: DataType) -> Value:
        """Return x in another type as Torch converts; neither is a narrow float."""
        code = DataType.INT8.value.torch_code if dtype is DataType.INT4 else dtype.value.torch_code
        return self.call(T.PrimsConvertElementTypeOp, x.shape, dtype, x, code)

    def relabel(self, x: Value, dtype: DataType) -> Value:
        """Return the same elements under another type that is stored alike."""
        return replace(x, dtype=dtype)

    def value(self, ssa: Any, shape: Sequence[int], dtype: DataType) -> Value:
        """Return an SSA value that was made elsewhere."""
        return Value(ssa, tuple(shape), dtype)

    def _saturate(self, x: Value, dtype: DataType) -> Value:
        low, high = integer_range(dtype)
        if x.dtype.is_integer:
            from_low, from_high = integer_range(x.dtype)
            bounds = (max(low, from_low), min(high, from_high))
            return self.cast(self.unary(T.AtenClampOp, x, *bounds), dtype)
        if x.dtype not in (F32, F64):
            x = self.cast(x, F32)
        exact = float(np.float32(high)) if x.dtype is F32 else float(high)
        if exact <= high:
            inside = self.unary(T.AtenClampOp, x, float(low), float(high))
            if dtype is DataType.UINT8:  # W-105: of a double, and of a float32 in scalar code
                inside = self.cast(inside, DataType.INT32)
            return self.cast(inside, dtype)
        # The bound itself is not a float: clamp to the largest float below, and put the
        # bound in where the value reaches it.
        below = (
            float(np.nextafter(np.float32(exact), np.float32(-inf)))
            if x.dtype is F32
            else (float(np.nextafter(exact, -inf)))
        )
        inside = self.cast(self.unary(T.AtenClampOp, x, float(low), below), dtype)
        over = self.call(T.AtenGeScalarOp, x.shape, BOOL, x, exact)
        return self.where(over, self.literal(high, dtype, ()), inside)

    # ---------------------------------------------------------------- locations

    @contextmanager
    def at(self, location: str) -> Iterator[None]:
        """Give ops made inside a location that compiler diagnostics will show."""
        with ir.Location.name(location):
            yield


def integer_range(dtype: DataType) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type."""
    if dtype.value.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _int_list(items: Sequence[Any]) -> Any:
    return T.PrimListConstructOp(ir.Type.parse("!torch.list<int>"), items).result


def _rounded(value: Scalar | np.ndarray[Any, Any], dtype: DataType) -> Any:
    """Return a number, or each of an array, rounded once to a floating-point type."""
    kind = getattr(ml_dtypes, dtype.value.numpy, None) or dtype.value.numpy
    return np.asarray(value, dtype=np.float64).astype(np.dtype(kind))


def _literal_text(value: Scalar, dtype: DataType) -> str:
    """Spell a number for ``dense<...>``: floats by their bits, so that nothing is rounded twice."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    raw: bytes = _rounded(value, dtype).tobytes()
    if is_code(dtype):
        return str(raw[0])
    return "0x" + raw[::-1].hex().upper()
