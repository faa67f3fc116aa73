# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls on a CPU in blocks of our own choice.

Without more than the op the compiler packs both operands and runs along all of k for each tile.
This op carries the blocks as an attribute of IREE's, which torch-mlir takes as it comes and IREE
reads.  It names dims of the loop nest, so what would change them, a transpose or a reshape that is
folded into the op, is kept out by barriers.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from ..ops.blocking import Blocking
from .builder import Builder, Value
from .narrow import storage
from .structured import from_builtin, to_builtin

__all__ = ["blocked_matmul"]

_ALONG_K, _APART = "#linalg.iterator_type<reduction>", "#linalg.iterator_type<parallel>"


def blocked_matmul(
    b: Builder, left: Value, right: Value, blocks: Blocking, *, columns: bool = False
) -> Value:
    """Return left · right.

    Parameters
    ----------
    left : Value
        Dims (count, m, k), or (1, m, k) for the same matrix each time.
    right : Value
        Dims (count, k, n) of the same type, a float of 32 bits; with ``columns`` (count, n, k).
    blocks : Blocking
        Of m, n and k.
    columns : bool
        Whether the columns of the right operand come one after the other.

    Returns
    -------
    Value
        Dims (count, m, n).
    """
    # torch-mlir knows nothing of IREE's dialects
    ir.Context.current.allow_unregistered_dialects = True
    (same, m, k), count = left.shape, right.shape[0]
    n = right.shape[1 if columns else 2]
    whole, element = blocks.panels * blocks.panel, storage(left.dtype)
    if columns and whole != n:  # packing such operands and adding zeros in one go is slow
        ends = [b.literal(0, right.dtype, (count, whole - n, k))]
        right = b.concatenate([right, *ends], 1)
    zero = ir.Operation.create(
        "arith.constant",
        [ir.Type.parse(element)],
        attributes={"value": ir.Attribute.parse(f"0.0 : {element}")},
    ).result
    shape = (count, blocks.panels, k, blocks.panel)
    packed = from_builtin(b, _packed(to_builtin(right), zero, shape, columns), shape, left.dtype)
    # The compiler drops dims of one element, and would take the blocks for those of other dims.
    extents = {"b": count, "m": m, "p": blocks.panels, "n": blocks.panel, "k": k}
    dims = "".join(name for name, extent in extents.items() if extent > 1)
    left_dims = "bmk" if same == count else "mk"
    kept = [[d for d in names if d in dims] for names in (left_dims, "bpkn", "bmpn")]
    shapes = [tuple(extents[d] for d in names) for names in kept]
    given = [b.reshape(v, s) for v, s in zip((left, packed), shapes, strict=False)]
    barred = [_barrier(to_builtin(v), "start") for v in given]
    total = _multiplied(barred, zero, dims, kept, shapes[-1], _configuration(blocks, dims, k))
    joined = b.reshape(from_builtin(b, total, shapes[-1], left.dtype), (count, m, whole))
    return b.slice(joined, 2, 0, n)


def _packed(x: ir.Value, zero: ir.Value, shape: Sequence[int], columns: bool) -> ir.Value:
    """Return the panels of the right operand."""
    _, panels, _, panel = shape
    element, given = zero.type, x.type.shape
    full = given[1 if columns else 2] == panels * panel
    order = [0, 1, 2] if columns else [0, 2, 1]
    kind = ir.RankedTensorType.get(shape, element)
    op = ir.Operation.create(
        "linalg.pack",
        [kind],
        [x, _empty(kind), *([] if full else [zero])],
        {
            "outer_dims_perm": ir.DenseI64ArrayAttr.get(order),
            "inner_dims_pos": ir.DenseI64ArrayAttr.get([1 if columns else 2]),
            "static_inner_tiles": ir.DenseI64ArrayAttr.get([panel]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, int(not full), 0]),
        },
    )
    return op.result


def _multiplied(
    operands: Sequence[ir.Value],
    zero: ir.Value,
    dims: str,
    kept: Sequence[Sequence[str]],
    shape: Sequence[int],
    configuration: str,
) -> ir.Value:
    """Return the sums as one op over dims, of which operands and result have those ``kept``."""
    element = zero.type
    kind = ir.RankedTensorType.get(shape, element)
    fill = ir.Operation.create(
        "linalg.fill",
        [kind],
        [zero, _empty(kind)],
        {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
        regions=1,
    )
    block = fill.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
    maps = [f"affine_map<({', '.join(dims)}) -> ({', '.join(names)})>" for names in kept]
    loops = [_ALONG_K if d == "k" else _APART for d in dims]
    op = ir.Operation.create(
        "linalg.generic",
        [kind],
        [*operands, fill.result],
        {
            "indexing_maps": ir.Attribute.parse(f"[{', '.join(maps)}]"),
            "iterator_types": ir.Attribute.parse(f"[{', '.join(loops)}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
            "compilation_info": ir.Attribute.parse(configuration),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(element, element, element)
    with ir.InsertionPoint(block):
        x, y, total = block.arguments
        term = ir.Operation.create("arith.mulf", [element], [x, y]).result
        total = ir.Operation.create("arith.addf", [element], [total, term]).result
        ir.Operation.create("linalg.yield", operands=[total])
    return _barrier(op.result, "end")


def _configuration(blocks: Blocking, dims: str, k: int) -> str:
    """Return how the compiler is to tile the op over dims, a letter each."""
    tile = {"b": 1, "m": blocks.block, "p": 1, "n": blocks.panel}
    levels: dict[str, dict[str, int]] = {
        "distribution": {**tile, "p": blocks.shared},
        "cache_parallel": tile,
        **({"cache_reduction": {"k": blocks.depth}} if blocks.depth < k else {}),
        "vector_common_parallel": {**tile, "m": blocks.rows},
        "vector_reduction": {"k": 1},
    }
    tiles = (f"{name} = {[sizes.get(d, 0) for d in dims]}" for name, sizes in levels.items())
    return (
        "#iree_codegen.compilation_info<"
        f"lowering_config = #iree_cpu.lowering_config<{', '.join(tiles)}>, "
        "translation_info = #iree_codegen.translation_info<"
        "pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>"
    )


def _barrier(x: ir.Value, end: str) -> ir.Value:
    """Return a value that no transpose or reshape passes."""
    name = f"iree_tensor_ext.compute_barrier.{end}"
    return ir.Operation.create(name, [x.type], [x]).result


def _empty(kind: ir.RankedTensorType) -> ir.Value:
    return ir.Operation.create("tensor.empty", [kind]).result
