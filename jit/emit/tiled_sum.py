# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of products as one op of MLIR's linalg dialect, with tiles of our own choice.

The op carries its tiles as an attribute of IREE's, which torch-mlir takes as it comes and IREE
reads.  It names dims of the loop nest, so what would change them, a transpose or a reshape that is
folded into the op, is kept out by barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir

from ..lowering_config import DOUBLE_TILING, compilation_info
from .builder import Builder, Value
from .structured import barrier, from_builtin, to_builtin

__all__ = ["constant", "contraction", "elementwise", "empty", "separate_product", "tiled_sum"]

_ALONG_K, _APART = "#linalg.iterator_type<reduction>", "#linalg.iterator_type<parallel>"
_FUSED = "#arith.fastmath<contract>"


def tiled_sum(
    b: Builder,
    operands: Sequence[Value],
    dims: Sequence[str],
    extents: Mapping[str, int],
    tiles: Mapping[str, Mapping[str, int]],
    *,
    side_by_side: bool = False,
    zeroed: bool = False,
) -> Value:
    """Return the sum of the products of two operands' elements over some dims.

    Parameters
    ----------
    operands : sequence of Value
        Two, of float types; the sums are of the wider one, which has 32 bits at least.
    dims : sequence of str
        The dims of the operands and of the result, a letter each.
    extents : mapping
        Of each letter, in the order of the loops: summed dims come last.
    tiles : mapping
        Tile sizes by letter, for each level of IREE's ``lowering_config``; 0 where none is given.
    side_by_side : bool
        Whether a vector has products of one sum each: what the innermost dim of both operands and
        of the result calls for.  A product of matrices, as which the compiler would see the op
        otherwise, has vectors along one operand, and elements of the other are repeated.
    zeroed : bool
        Whether the sums are zeroed before the op, which adds to them in memory.

    Returns
    -------
    Value
        The dims of the last of ``dims``, in that order.
    """
    # The compiler drops dims of one element, and would take the tiles for those of other dims.
    loops = "".join(name for name, extent in extents.items() if extent > 1)
    kept = [[d for d in names if d in loops] for names in dims]
    shapes = [tuple(extents[d] for d in names) for names in kept]
    given = [b.reshape(v, s) for v, s in zip(operands, shapes, strict=False)]
    barred = [barrier(to_builtin(v), "start") for v in given]
    maps = [", ".join(names) for names in kept]
    term = _fused if side_by_side else _product
    total = contraction(barred, shapes[-1], loops, maps, tiles, term=term, zeroed=zeroed)
    widest = max((v.dtype for v in operands), key=lambda kind: kind.bits)
    result = from_builtin(b, barrier(total, "end"), shapes[-1], widest)
    return b.reshape(result, tuple(extents[d] for d in dims[-1]))


def _fused(x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x · y, to the last bit, as x · y + (-0).

    Such a product is not taken for that of a contraction, and LLVM makes one instruction of it and
    of the sum.
    """
    fused, zero = {"fastmath": ir.Attribute.parse(_FUSED)}, constant(-0.0, x.type)
    return ir.Operation.create("math.fma", [x.type], [x, y, zero], fused).result


def _product(x: ir.Value, y: ir.Value) -> ir.Value:
    return ir.Operation.create("arith.mulf", [x.type], [x, y]).result


def separate_product(b: Builder, x: Value, y: Value) -> Value:
    """Return the product of two values of one shape and type such that its sum is no contraction.

    The vectors of a contraction lie along what is summed; where that is a column they are filled
    number by number.
    """
    given = [to_builtin(v) for v in (x, y)]
    made = elementwise(given[0].type, given, _fused)
    return from_builtin(b, made, x.shape, x.dtype)


def elementwise(
    kind: ir.RankedTensorType, operands: Sequence[ir.Value], element: Callable[..., ir.Value]
) -> ir.Value:
    """Return a tensor whose elements a function makes of those of tensors of the same dims."""
    rank = kind.rank
    same = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    op = ir.Operation.create(
        "linalg.generic",
        [kind],
        [*operands, empty(kind)],
        {
            "indexing_maps": ir.ArrayAttr.get([same] * (len(operands) + 1)),
            "iterator_types": ir.Attribute.parse(f"[{', '.join([_APART] * rank)}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 1]),
        },
        regions=1,
    )
    types = [v.type.element_type for v in operands]
    block = op.regions[0].blocks.append(*types, kind.element_type)
    with ir.InsertionPoint(block):
        *given, _ = block.arguments
        ir.Operation.create("linalg.yield", operands=[element(*given)])
    return op.result


def contraction(
    operands: Sequence[ir.Value],
    shape: Sequence[int],
    loops: str,
    maps: Sequence[str],
    tiles: Mapping[str, Mapping[str, int]],
    *,
    pipeline: str = DOUBLE_TILING,
    term: Callable[[ir.Value, ir.Value], ir.Value] = _product,
    zeroed: bool = False,
) -> ir.Value:
    """Return sums of products of pairs of operands' elements as one op.

    Parameters
    ----------
    operands : sequence of ir.Value
        Tensors of float types: all that come first in a pair, then their partners.  The sums are of
        the widest, which has 32 bits at least; those of all pairs are added up.
    shape : sequence of int
        Of the result.
    loops : str
        A letter each.
    maps : sequence of str
        The indices of both operands of a pair and of the result, of these letters.  Loops whose
        letter the last one has not are summed over.
    tiles : mapping
        Tile sizes by letter, for each level of IREE's ``lowering_config``.
    pipeline : str
        Of IREE's passes for CPUs.
    term : function
        A product of two elements.
    zeroed : bool
        Whether the sums are zeroed before the op, by another kernel.
    """
    types = [v.type.element_type for v in operands]
    element = max(types, key=lambda kind: kind.width)
    if element.width < 32:
        raise ValueError(f"sums would be of {element}: convert an operand")
    total = ir.RankedTensorType.get(shape, element)
    names, zeros = ", ".join(loops), _zeros(total)
    if zeroed:
        zeros = barrier(zeros, "start")
    pairs, (left, right, result) = len(operands) // 2, maps
    every = [left] * pairs + [right] * pairs + [result]
    indexing = ", ".join(f"affine_map<({names}) -> ({one})>" for one in every)
    levels = {name: [sizes.get(d, 0) for d in loops] for name, sizes in tiles.items()}
    kinds = ", ".join(_APART if d in result else _ALONG_K for d in loops)
    op = ir.Operation.create(
        "linalg.generic",
        [total],
        [*operands, zeros],
        {
            "indexing_maps": ir.Attribute.parse(f"[{indexing}]"),
            "iterator_types": ir.Attribute.parse(f"[{kinds}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2 * pairs, 1]),
            "compilation_info": ir.Attribute.parse(compilation_info(levels, pipeline)),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(*types, element)
    with ir.InsertionPoint(block):
        *given, before = block.arguments
        wide = [
            v if v.type == element else ir.Operation.create("arith.extf", [element], [v]).result
            for v in given
        ]
        added = term(wide[0], wide[pairs])
        for x, y in zip(wide[1:pairs], wide[pairs + 1 :], strict=True):
            added = ir.Operation.create("math.fma", [element], [x, y, added]).result
        after = ir.Operation.create("arith.addf", [element], [before, added]).result
        ir.Operation.create("linalg.yield", operands=[after])
    return op.result


def constant(value: float, element: ir.Type) -> ir.Value:
    """Return a number of a float type."""
    text = ir.Attribute.parse(f"{value} : {element}")
    return ir.Operation.create("arith.constant", [element], attributes={"value": text}).result


def empty(kind: ir.Type) -> ir.Value:
    """Return a tensor whose elements are written before they are read."""
    return ir.Operation.create("tensor.empty", [kind]).result


def _zeros(kind: ir.RankedTensorType) -> ir.Value:
    x, element = empty(kind), kind.element_type
    fill = ir.Operation.create(
        "linalg.fill",
        [kind],
        [constant(0.0, element), x],
        {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
        regions=1,
    )
    block = fill.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
    return fill.result
