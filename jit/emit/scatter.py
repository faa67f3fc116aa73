# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements stored at their places in a larger buffer, with nothing written between them.

IREE's ``map_store`` writes element by element to where a function of its index says.  Its result
becomes the output's own memory: the kernel that stores is the only one that touches it.  Torch's
dialect has nothing like it (an element that is kept is read and written again there), so that the
op enters the module as one that this library does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from .builder import Builder, Value
from .structured import from_builtin, to_builtin

__all__ = ["scatter", "zero"]


def zero() -> Any:
    """Return an index that is 0, which the compiler does not know; made at the function's start.

    One for each output: otherwise two equal outputs would be one result, and constants would be
    stored once when the module is loaded; both are then copied to the memory as a whole.
    """
    ir.Context.current.allow_unregistered_dialects = True
    index = ir.IndexType.get()
    return ir.Operation.create("util.optimization_barrier", [index], [_index(0)]).result


def scatter(
    b: Builder, x: Value, places: Sequence[tuple[int, int]], span: int, start: Any
) -> Value:
    """Return a flat value of which only the places of x's elements are written.

    Parameters
    ----------
    b : Builder
    x : Value
        As many elements as there are places, in the order of memory.
    places : sequence of (int, int)
        Extent and stride of each dim, outermost first.
    span : int
        Elements of the result.
    start : object
        What `zero` returned.
    """
    source = to_builtin(b.reshape(x, [extent for extent, _ in places]))
    kind = ir.RankedTensorType.get([span], ir.RankedTensorType(source.type).element_type)
    target = ir.Operation.create("tensor.empty", [kind]).result
    made = ir.Operation.create("iree_linalg_ext.map_store", [kind], [source, target], regions=1)
    index = ir.IndexType.get()
    block = made.regions[0].blocks.append(*(index for _ in places))
    with ir.InsertionPoint(block):
        at = start
        for position, (_, stride) in zip(block.arguments, places, strict=True):
            step = _op("arith.muli", position, _index(stride)) if stride > 1 else position
            at = _op("arith.addi", at, step)
        always = ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 1)
        written = _constant(always)
        ir.Operation.create("iree_linalg_ext.yield", operands=[at, written])
    return from_builtin(b, made.result, (span,), x.dtype)


def _op(name: str, a: Any, c: Any) -> Any:
    return ir.Operation.create(name, [a.type], [a, c]).result


def _index(number: int) -> Any:
    return _constant(ir.IntegerAttr.get(ir.IndexType.get(), number))


def _constant(value: Any) -> Any:
    return ir.Operation.create("arith.constant", [value.type], attributes={"value": value}).result
