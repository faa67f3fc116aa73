# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step c, the part on MLIR: ops become regions, and regions become ops again.

A region is ``torch.operator "hipdnn.graph"(tensors) {^bb0(args): ...}``.  It holds clones of the
constants and lists that it reads, so that it is self-contained: what it takes are tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from .describe import functions, is_constant, is_list, operands, region_ops

__all__ = [
    "clone",
    "close_regions",
    "dissolve",
    "drop_dead",
    "drop_dead_constants",
    "outline",
    "sort",
]


def outline(module: Any, options: Mapping[str, Any]) -> None:
    """Move ops into regions.

    ``options["functions"]``: for each function's name a list of regions, each a list of places
    in its block.
    """
    wanted = options["functions"]
    for function in functions(module):
        groups = wanted.get(ir.StringAttr(function.attributes["sym_name"]).value)
        if not groups:
            continue
        block = function.regions[0].blocks[0]
        body = [op.operation for op in block.operations]
        for places in groups:
            _outlined(block, [body[place] for place in places])
        sort(block)
        drop_dead_constants(block)


def _outlined(block: Any, chosen: Sequence[Any]) -> None:
    members = _with_lists(chosen)
    made = {result for op in members for result in op.results}
    inside = set(members)
    results = [
        value
        for op in members
        for value in op.results
        if any(_in_block(use.owner, block) not in inside for use in value.uses)
    ]
    taken = list(
        dict.fromkeys(
            value
            for op in members
            for value in operands(op)
            if value not in made and not _is_cloned(value)
        )
    )
    unknown = ir.Location.unknown()
    end = block.operations[len(block.operations) - 1]
    where = ir.Location.fused([op.location for op in chosen]) if len(chosen) > 1 else chosen[0]
    with ir.InsertionPoint(end), where if len(chosen) > 1 else chosen[0].location:
        region = ir.Operation.create(
            "torch.operator",
            results=[value.type for value in results],
            operands=taken,
            attributes={"name": ir.StringAttr.get("hipdnn.graph")},
            regions=1,
        )
    body = region.regions[0].blocks.append(
        *(value.type for value in taken), arg_locs=[unknown] * len(taken)
    )
    known = dict(zip(taken, body.arguments, strict=True))
    with ir.InsertionPoint(body):
        for op in members:
            clone(op, known)
        _end(body, [known[value] for value in results])
    for value, result in zip(results, region.results, strict=True):
        value.replace_all_uses_with(result)
    for op in reversed(members):
        op.erase()


def _with_lists(chosen: Iterable[Any]) -> list[Any]:
    """Return ops in order, with the lists of tensors that only they read."""
    found: dict[Any, None] = {}
    wanted = set(chosen)

    def lists_of(op: Any) -> None:
        for value in op.operands:
            owner = value.owner
            if isinstance(owner, ir.Block) or not is_list(owner.operation):
                continue
            made = owner.operation
            users = {use.owner.operation for use in value.uses}
            if made not in found and users <= wanted | set(found) and not _is_cloned(value):
                lists_of(made)
                found[made] = None

    for op in chosen:
        lists_of(op)
        found[op] = None
    return list(found)


def _in_block(op: Any, block: Any) -> Any:
    """Return the op of the block that holds an op, at any depth."""
    here = op.operation
    while here.block != block:
        here = here.parent.operation
    return here


def _is_cloned(value: Any) -> bool:
    """Whether a value is a constant, or a list of such: a region has its own."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    op = owner.operation
    if is_list(op):
        return all(map(_is_cloned, op.operands))
    return is_constant(op) and (op.name != "torch.vtensor.literal" or _is_small(op))


def _is_small(op: Any) -> bool:
    kind = ir.ShapedType(op.attributes["value"].type)
    return all(n == 1 for n in kind.shape)


def clone(op: Any, known: dict[Any, Any]) -> None:
    """Clone an op at the insertion point, with what it reads of constants."""
    for value in operands(op):
        if value not in known and not isinstance(value.owner, ir.Block):
            clone(value.owner.operation, known)
    made = op.clone()
    if list(op.regions):
        for value in list(operands(made)):
            if value in known:
                _replace(made, value, known[value])
    else:
        for i, value in enumerate(op.operands):
            made.operands[i] = known[value]
    known.update(zip(op.results, made.results, strict=True))


def _replace(op: Any, value: Any, new: Any) -> None:
    """Make an op, and those inside it, read another value."""
    op.replace_uses_of_with(value, new)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _replace(inner.operation, value, new)


def _end(block: Any, values: Sequence[Any]) -> None:
    with ir.InsertionPoint(block), ir.Location.unknown():
        ir.Operation.create("torch.operator_terminator", operands=list(values))


def close_regions(module: Any, options: Mapping[str, Any]) -> None:
    """Give each region its own constants again, which ``canonicalize`` and ``cse`` share."""
    for function in functions(module):
        for block in function.regions[0].blocks:
            for region in region_ops(block):
                _close(region)
            drop_dead_constants(block)


def _close(region: Any) -> None:
    body = region.regions[0].blocks[0]
    known: dict[Any, Any] = {}
    own = set(body.arguments)
    for op in body.operations:
        own.update(op.operation.results)
    for op in [o.operation for o in body.operations]:
        for value in dict.fromkeys(operands(op)):
            if value in own:
                continue
            if value not in known:
                with ir.InsertionPoint.at_block_begin(body):
                    clone(value.owner.operation, known)
            _replace(op, value, known[value])
    sort(body)


def drop_dead(module: Any, options: Mapping[str, Any]) -> None:
    """Erase ops of values that nothing reads, of which MLIR's passes leave some."""
    for function in functions(module):
        for block in function.regions[0].blocks:
            for op in reversed([one.operation for one in block.operations]):
                if _is_pure(op) and not any(list(result.uses) for result in op.results):
                    op.erase()


def _is_pure(op: Any) -> bool:
    known = is_constant(op) or is_list(op) or op.name == "torch.operator"
    if not known and not op.name.startswith(("torch.aten.", "torch.prims.")):
        return False
    return bool(list(op.results)) and not any(
        str(value.type).startswith("!torch.tensor") for value in op.operands
    )


def drop_dead_constants(block: Any) -> None:
    """Erase constants and lists that nothing reads."""
    for op in reversed([one.operation for one in block.operations]):
        for region in op.regions:
            for inner in region.blocks:
                drop_dead_constants(inner)
        if (is_constant(op) or is_list(op)) and not any(list(r.uses) for r in op.results):
            op.erase()


def sort(block: Any) -> None:
    """Put ops behind what they read; those that are in order stay in order."""
    *body, end = [op.operation for op in block.operations]
    place = {op: i for i, op in enumerate(body)}
    done: dict[Any, None] = {}
    for first in body:
        stack = [first]
        while stack:
            op = stack[-1]
            if op in done:
                stack.pop()
                continue
            needs = [
                value.owner.operation
                for value in operands(op)
                if not isinstance(value.owner, ir.Block)
            ]
            open_ = [one for one in needs if one in place and one not in done]
            if open_:
                stack += sorted(dict.fromkeys(open_), key=place.__getitem__, reverse=True)
            else:
                done[op] = None
                stack.pop()
    for op in done:
        op.move_before(end)


def dissolve(region: Any) -> None:
    """Turn a region into the ops that it holds."""
    body = region.regions[0].blocks[0]
    known = dict(zip(body.arguments, region.operands, strict=True))
    *inner, end = [op.operation for op in body.operations]
    with ir.InsertionPoint(region):
        for op in inner:
            clone(op, known)
    for result, value in zip(region.results, end.operands, strict=True):
        result.replace_all_uses_with(known[value])
    region.erase()
