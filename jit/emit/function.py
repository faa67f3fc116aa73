# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading a function that somebody else wrote: parsed, verified, and only what is allowed.

Runs in the worker (`jit.compiler.tasks`), as a text can be made that crashes MLIR's parser
(W-039).  What it returns is the generic form of the same function, which it has read back itself:
the host then parses a text that the same library has parsed before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...graph_api.mlir_text import fits

__all__ = ["RULES", "perform"]

RULES: dict[str, str] = {
    "FUNCTION-01": "the text of a custom op is MLIR that torch-mlir reads and verifies",
    "FUNCTION-02": "the text of a custom op holds one function, with a body of one block",
    "FUNCTION-03": "a custom op's function is made of torch-dialect ops without state or effects",
    "FUNCTION-04": "a custom op's function works on value tensors and constants",
    "FUNCTION-05": "the text of a custom op is nested at most 100 brackets deep",
}

# What the torch dialect has besides functions of values: other programs' code, objects, output,
# changes in place, random numbers (which would differ from run to run).
_FORBIDDEN = re.compile(
    r"torch\.(operator|overwrite\..*|copy\..*|nn_module.*|class_type|attr|method|slot"
    r"|global_slot.*|initialize.*|runtime\..*|hop_.*"
    r"|prim\.(Print|RaiseException|CallMethod|GetAttr|SetAttr|CreateObject|Load|Store)"
    r"|aten\.(\w*rand\w*|bernoulli|uniform|normal|normal_functional|multinomial|exponential"
    r"|native_dropout)(\..*)?)"
)
_MUTABLE = re.compile(r"!torch\.(tensor\b|nn\.)")
_LONGEST = 300
_DEEPEST = 100


def perform(source: bytes, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return the problems of a text, as records without a node, and its generic form."""
    from torch_mlir import ir
    from torch_mlir.dialects import torch

    with ir.Context() as context, ir.Location.unknown():
        torch.register_dialect(context)
        try:
            module = ir.Module.parse(source)
        except ir.MLIRError as error:
            found = [_unreadable(d) for d in error.error_diagnostics]
            return {"problems": found or [_problem("FUNCTION-01", str(error), _MLIR)]}, b""
        problems = list(_problems(module))
        if problems:
            return {"problems": problems}, b""
        module = _specialised(module, options["arguments"])
        text = str(module.operation.get_asm(print_generic_op_form=True))
        if _depth(text) > _DEEPEST:
            # The host may parse in a thread whose stack is smaller than this one's.
            got, wanted = f"brackets {_depth(text)} deep", f"at most {_DEEPEST}"
            return {"problems": [_problem("FUNCTION-05", got, wanted)]}, b""
        ir.Module.parse(text)
        return {"problems": []}, text.encode()


def _specialised(module: Any, arguments: Sequence[str]) -> Any:
    """Return the module with the extents that arguments leave open, and what follows from them.

    Code for open extents is compiled worse, or (attention, W-024) not at all.
    """
    from torch_mlir import ir
    from torch_mlir.passmanager import PassManager

    spelled = [str(argument.type) for argument in _block(module).arguments]
    if spelled == list(arguments) or len(spelled) != len(arguments):
        return module
    if not all(fits(one, other) for one, other in zip(spelled, arguments, strict=True)):
        return module  # the host reports what does not fit
    made = ir.Module.parse(str(module))
    function = made.body.operations[0]
    types = [ir.Type.parse(text) for text in arguments]
    for argument, known in zip(_block(made).arguments, types, strict=True):
        argument.set_type(known)
    results = ir.FunctionType(function.attributes["function_type"].value).results
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
    # Otherwise the passes remove it as a function without callers.
    function.attributes["sym_visibility"] = ir.StringAttr.get("public")
    try:
        PassManager.parse(f"builtin.module({_REFINE})").run(made.operation)
    except ir.MLIRError:
        return module
    # What could not be worked out is left there as functions that calculate it.
    return made if len(made.body.operations) == 1 else module


def _block(module: Any) -> Any:
    return module.body.operations[0].regions[0].blocks[0]


_REFINE = "torch-shape-refinement-pipeline,func.func(canonicalize)"


def _depth(text: str) -> int:
    """Return how deep any one kind of bracket is nested, outside strings."""
    plain = re.sub(r'"[^"]*"|->', "", text)  # in MLIR's output a quote inside quotes is \\22
    deepest = 0
    for pair in ("()", "[]", "{}", "<>"):
        depth = 0
        for bracket in re.findall(f"[{re.escape(pair)}]", plain):
            depth += 1 if bracket == pair[0] else -1
            deepest = max(deepest, depth)
    return deepest


_MLIR = "a function in MLIR's torch dialect"


def _problem(rule: str, got: str, wanted: str, hint: str = "") -> dict[str, str]:
    got = " ".join(got.split())
    got = got if len(got) <= _LONGEST else got[: _LONGEST - 1] + "…"
    return {"rule": rule, "port": "data", "got": got, "wanted": wanted, "hint": hint}


def _unreadable(diagnostic: Any) -> dict[str, str]:
    where = re.search(r":(\d+):(\d+)", str(diagnostic.location))
    position = f"line {where[1]}, column {where[2]}: " if where else ""
    hint = "placeholders such as {IN0_TYPE} stand for the tensors' values"
    return _problem("FUNCTION-01", f"{position}{diagnostic.message}", _MLIR, hint)


def _problems(module: Any) -> Iterator[dict[str, str]]:
    functions = [op.operation for op in module.body.operations]
    names = [op.name for op in functions]
    if names != ["func.func"]:
        got = ", ".join(names[:5]) or "nothing"
        yield _problem("FUNCTION-02", got, "one func.func and nothing beside it")
        return
    blocks = list(functions[0].regions[0].blocks)
    if len(blocks) != 1:
        got = f"a body of {len(blocks)} blocks" if blocks else "a function without a body"
        yield _problem("FUNCTION-02", got, "a body of one block")
        return
    for op in _inside(blocks[0]):
        yield from _problems_of(op)
    for argument in blocks[0].arguments:
        if _MUTABLE.match(str(argument.type)):
            yield _problem("FUNCTION-04", str(argument.type), "!torch.vtensor<[...],...>")


def _inside(block: Any) -> Iterator[Any]:
    for op in block.operations:
        yield op.operation
        for region in op.operation.regions:
            for inner in region.blocks:
                yield from _inside(inner)


def _problems_of(op: Any) -> Iterator[dict[str, str]]:
    name = str(op.name)
    wanted = "ops of the torch dialect that compute values from values"
    if name == "torch.operator":
        called = str(op.attributes["name"])
        hint = "torch-mlir does not know it: write it by other ops"
        yield _problem("FUNCTION-03", f"torch.operator {called}", wanted, hint)
    elif (name != "func.return" and not name.startswith("torch.")) or _FORBIDDEN.fullmatch(name):
        yield _problem("FUNCTION-03", name, wanted)
    for result in op.results:
        if _MUTABLE.match(str(result.type)):
            got = f"{result.type} from {name}"
            yield _problem("FUNCTION-04", got, "!torch.vtensor<[...],...>")
