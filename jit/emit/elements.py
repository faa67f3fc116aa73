# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of single elements, written with Python's operators, as one op on whole tensors.

For long formulas, which as Torch's ops become several kernels with memory between them, and for
bits and loops, which the Torch dialect does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from .builder import Builder, Value
from .dims import Dim, broadcast
from .structured import from_builtin, to_builtin

__all__ = ["Element", "elementwise", "repeat"]

# Of arith.cmpf and arith.cmpi: equal, not equal (also of NaN), less, at most, greater, at least.
_FLOAT = {"eq": 1, "ne": 13, "lt": 4, "le": 5, "gt": 2, "ge": 3}
_WHOLE = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}


@dataclass(frozen=True, eq=False)
class Element:
    """A float, or an integer of 64 bits with a sign; numbers beside it take its type."""

    ssa: Any

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return not isinstance(self.ssa.type, ir.IntegerType)

    def __add__(self, other: Element | float) -> Element:
        return self._with("add", other)

    def __sub__(self, other: Element | float) -> Element:
        return self._with("sub", other)

    def __mul__(self, other: Element | float) -> Element:
        return self._with("mul", other)

    def __truediv__(self, other: Element | float) -> Element:
        return _made("arith.divf", self, self.number(other))

    def __mod__(self, other: Element | int) -> Element:
        return _made("arith.remsi", self, self.number(other))

    def __and__(self, other: Element | int) -> Element:
        return _made("arith.andi", self, self.number(other))

    def __or__(self, other: Element | int) -> Element:
        return _made("arith.ori", self, self.number(other))

    def __lshift__(self, other: Element | int) -> Element:
        return _made("arith.shli", self, self.number(other))

    def __rshift__(self, other: Element | int) -> Element:
        return _made("arith.shrui", self, self.number(other))

    def __neg__(self) -> Element:
        return _made("arith.negf", self)

    def __lt__(self, other: Element | float) -> Element:
        return self._is("lt", other)

    def __le__(self, other: Element | float) -> Element:
        return self._is("le", other)

    def __gt__(self, other: Element | float) -> Element:
        return self._is("gt", other)

    def __ge__(self, other: Element | float) -> Element:
        return self._is("ge", other)

    def equals(self, other: Element | float) -> Element:
        """Return whether two numbers are equal."""
        return self._is("eq", other)

    def differs(self, other: Element | float) -> Element:
        """Return whether two numbers are not equal."""
        return self._is("ne", other)

    def choose(self, a: Element, b: Element) -> Element:
        """Return a where this, a comparison, holds, else b."""
        return _made("arith.select", self, a, b, kind=a.ssa.type)

    def at_least(self, other: int) -> Element:
        """Return the larger of two integers."""
        return _made("arith.maxsi", self, self.number(other))

    def at_most(self, other: int) -> Element:
        """Return the smaller of two integers."""
        return _made("arith.minsi", self, self.number(other))

    def size(self) -> Element:
        """Return the absolute value of a float."""
        return _made("math.absf", self)

    def floor(self) -> Element:
        """Return the next integer below a float."""
        return _made("math.floor", self)

    def nearest(self) -> Element:
        """Return the nearest integer; rounding to even takes a CPU twenty instructions."""
        return (self + 0.5).floor()

    def double(self) -> Element:
        """Return a float32 or an integer as a double."""
        return _made("arith.extf" if self.is_float else "arith.sitofp", self, kind=ir.F64Type.get())

    def single(self) -> Element:
        """Return a double as float32."""
        return _made("arith.truncf", self, kind=ir.F32Type.get())

    def bits(self) -> Element:
        """Return the bits of a double, or the double of bits."""
        kind = ir.IntegerType.get_signless(64) if self.is_float else ir.F64Type.get()
        return _made("arith.bitcast", self, kind=kind)

    def number(self, value: Element | float) -> Element:
        """Return a constant of this type; an element is left as it is."""
        if isinstance(value, Element):
            return value
        kind = self.ssa.type
        if self.is_float:
            constant = ir.FloatAttr.get(kind, value)
        else:
            constant = ir.IntegerAttr.get(kind, value)
        made = ir.Operation.create("arith.constant", [kind], attributes={"value": constant})
        return Element(made.result)

    def _with(self, name: str, other: Element | float) -> Element:
        kind = "f" if self.is_float else "i"
        return _made(f"arith.{name}{kind}", self, self.number(other))

    def _is(self, relation: str, other: Element | float) -> Element:
        name, table = ("arith.cmpf", _FLOAT) if self.is_float else ("arith.cmpi", _WHOLE)
        predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), table[relation])
        operands = [self.ssa, self.number(other).ssa]
        bit = [ir.IntegerType.get_signless(1)]
        made = ir.Operation.create(name, bit, operands, attributes={"predicate": predicate})
        return Element(made.result)


def _made(name: str, *operands: Element, kind: Any = None) -> Element:
    result = kind or operands[0].ssa.type
    return Element(ir.Operation.create(name, [result], [e.ssa for e in operands]).result)


def repeat(
    start: Sequence[Element],
    more: Callable[..., Element],
    step: Callable[..., Sequence[Element]],
) -> list[Element]:
    """Return what becomes of some numbers by a step that is taken as long as ``more`` holds."""
    kinds = [e.ssa.type for e in start]
    loop = ir.Operation.create("scf.while", kinds, [e.ssa for e in start], regions=2)
    before, after = (region.blocks.append(*kinds) for region in loop.regions)
    with ir.InsertionPoint(before):
        now = [Element(v) for v in before.arguments]
        values = [more(*now).ssa, *(e.ssa for e in now)]
        ir.Operation.create("scf.condition", operands=values)
    with ir.InsertionPoint(after):
        then = step(*(Element(v) for v in after.arguments))
        ir.Operation.create("scf.yield", operands=[e.ssa for e in then])
    return [Element(v) for v in loop.results]


def elementwise(b: Builder, operands: Sequence[Value], body: Callable[..., Element]) -> Value:
    """Return a function of the elements of tensors, which broadcast as in NumPy.

    Parameters
    ----------
    operands : sequence of Value
        float32 or double, of one type, which is the result's.
    body : callable
        Emits the function of one element of each operand.
    """
    dtype, shape = operands[0].dtype, broadcast(*(v.shape for v in operands))
    tensors = [to_builtin(b.expand(v, shape)) for v in operands]
    kind = ir.RankedTensorType(tensors[0].type)
    index, extents = ir.IndexType.get(), []
    for axis, extent in enumerate(shape):
        if isinstance(extent, Dim):
            at = {"value": ir.IntegerAttr.get(index, axis)}
            place = ir.Operation.create("arith.constant", [index], attributes=at).result
            extents.append(ir.Operation.create("tensor.dim", [index], [tensors[0], place]).result)
    empty = ir.Operation.create("tensor.empty", [kind], extents).result
    names = ", ".join(f"d{i}" for i in range(len(shape)))
    maps = ", ".join([f"affine_map<({names}) -> ({names})>"] * (len(tensors) + 1))
    kinds = ", ".join(["#linalg.iterator_type<parallel>"] * len(shape))
    op = ir.Operation.create(
        "linalg.generic",
        [kind],
        [*tensors, empty],
        attributes={
            "indexing_maps": ir.Attribute.parse(f"[{maps}]"),
            "iterator_types": ir.Attribute.parse(f"[{kinds}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(tensors), 1]),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(*[kind.element_type] * (len(tensors) + 1))
    with ir.InsertionPoint(block):
        found = body(*(Element(v) for v in list(block.arguments)[:-1]))
        ir.Operation.create("linalg.yield", operands=[found.ssa])
    return from_builtin(b, op.result, shape, dtype)
