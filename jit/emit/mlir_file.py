# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading a module that somebody else wrote, as the module that a graph is lowered to.

Runs in the worker (`jit.compiler.tasks`).  Three kinds of functions are taken: ours (outputs are
mutable arguments that are overwritten), functions of Torch's value tensors, and functions of
tensors (linalg, arith, math, tensor, scf).  What they return becomes arguments in front of the
others, which are overwritten; MLIR's own tensors are cast from and to Torch's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

__all__ = ["RULES", "perform"]

RULES: dict[str, str] = {
    "MLIR-01": "an MLIR file holds a module that torch-mlir reads and verifies",
    "MLIR-02": "an MLIR file has one function with a body, its entry",
    "MLIR-03": "the entry of an MLIR file takes and returns tensors of fixed sizes",
    "MLIR-04": "an MLIR file is in the form that --from names",
}

_TENSOR = re.compile(r"!torch\.(v?)tensor<\[([\d,]*)\],(\w+)>|tensor<((?:\d+x)*)(\w+)>")
_MUTABLE = re.compile(r"!torch\.tensor\b")
_LONGEST = 300

# Element type in MLIR -> data type of hipDNN.
_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "half",
    "bf16": "bfloat16",
    "i1": "boolean",
    "ui8": "uint8",
    **dict.fromkeys(("i8", "si8"), "int8"),
    **dict.fromkeys(("i32", "si32"), "int32"),
    **dict.fromkeys(("i64", "si64"), "int64"),
}
_SIGNED = {"i8": "si8", "i16": "si16", "i32": "si32", "i64": "si64"}

Problems = list[dict[str, str]]


def perform(source: bytes, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return problems, form, arguments and digest of a file, and its canonical text."""
    from torch_mlir import ir
    from torch_mlir.dialects import torch

    from .structured import load_casts

    with ir.Context() as context, ir.Location.unknown():
        torch.register_dialect(context)
        load_casts(context)
        context.allow_unregistered_dialects = True  # torch-mlir knows nothing of IREE's
        try:
            module = ir.Module.parse(source)
            if unknown := sorted(_unknown(context, module.operation)):
                return {"problems": [_problem("MLIR-01", ", ".join(unknown), _MLIR)]}, b""
            entry, form, problems = _entry(module, options["form"])
            if problems:
                return {"problems": problems}, b""
            args = _to_ours(entry, form)
            module.operation.verify()
        except ir.MLIRError as error:
            found = [_unreadable(d) for d in error.error_diagnostics]
            return {"problems": found or [_problem("MLIR-01", str(error), _MLIR)]}, b""
        text = str(module.operation.get_asm(enable_debug_info=True))
        digest = sha256(str(module).encode()).hexdigest()  # without locations
        return {"problems": [], "form": form, "args": args, "digest": digest}, text.encode()


# Ops of IREE's that modules of ours have: barriers around what has its own tiles, and such.
_IREE = ("iree_tensor_ext.", "iree_linalg_ext.", "util.")
_MLIR = "a module in the Torch dialect, or of linalg on tensors"


def _problem(rule: str, got: str, wanted: str, hint: str = "") -> dict[str, str]:
    got = " ".join(got.split())
    got = got if len(got) <= _LONGEST else got[: _LONGEST - 1] + "…"
    return {"rule": rule, "got": got, "wanted": wanted, "hint": hint}


def _unknown(context: Any, op: Any) -> set[str]:
    """Return the names of ops inside one that are neither torch-mlir's nor such as ours have."""
    inner = [one.operation for region in op.regions for block in region for one in block]
    others = (one for one in inner if not context.is_registered_operation(one.name))
    names = {one.name for one in others if not one.name.startswith(_IREE)}
    return names.union(*(_unknown(context, one) for one in inner))


def _unreadable(diagnostic: Any) -> dict[str, str]:
    where = re.search(r":(\d+):(\d+)", str(diagnostic.location))
    position = f"line {where[1]}, column {where[2]}: " if where else ""
    return _problem("MLIR-01", f"{position}{diagnostic.message}", _MLIR)


def _entry(module: Any, wanted: str) -> tuple[Any, str, Problems]:
    """Return the function to compile and its form, or what is wrong with the module."""
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    bodies = [function for function in functions if list(function.regions[0].blocks)]
    public = [f for f in bodies if "sym_visibility" not in f.attributes] or bodies
    if len(public) != 1:
        names = ", ".join(str(f.attributes["sym_name"]) for f in public) or "no function"
        return None, "", [_problem("MLIR-02", names, "one public function with a body")]
    (entry,) = public
    kind = entry.attributes["function_type"].value
    spelled = [str(t) for t in (*kind.inputs, *kind.results)]
    problems = list(_types(spelled))
    form = "linalg" if all(text.startswith("tensor<") for text in spelled) else "torch"
    if wanted and wanted != form:
        problems.append(_problem("MLIR-04", f"a module in the form {form}", f"the form {wanted}"))
    if len(list(entry.regions[0].blocks)) != 1:
        problems.append(_problem("MLIR-02", "a body of several blocks", "a body of one block"))
    return entry, form, problems


def _types(spelled: Sequence[str]) -> Iterator[dict[str, str]]:
    wanted = "tensor<4x8xf32> or !torch.vtensor<[4,8],f32>: sizes in numbers"
    hint = f"element types: {', '.join(_TYPES)}"
    for text in spelled:
        found = _TENSOR.fullmatch(text)
        if found is None or (found[3] or found[5]) not in _TYPES:
            yield _problem("MLIR-03", text, wanted, hint)
    kinds = {text.startswith("tensor<") for text in spelled}
    if len(kinds) > 1:
        yield _problem("MLIR-03", "MLIR's own tensors and Torch's in one signature", wanted)


def _to_ours(entry: Any, form: str) -> list[dict[str, Any]]:
    """Turn a function into one that overwrites its outputs; return its arguments."""
    from torch_mlir import ir
    from torch_mlir.dialects import func

    entry.attributes["sym_name"] = ir.StringAttr.get("main")
    for name in ("arg_attrs", "res_attrs"):
        if name in entry.attributes:
            del entry.attributes[name]
    block = entry.regions[0].blocks[0]
    last = block.operations[len(block.operations) - 1].operation
    given, returned = list(block.arguments), list(last.operands)
    mutable = [argument for argument in given if _MUTABLE.match(str(argument.type))]
    others = [argument for argument in given if argument not in mutable]
    unknown = ir.Location.unknown()

    def moved(argument: Any) -> None:
        """Put an argument behind all others, in Torch's type."""
        kind = argument.type
        made = block.add_argument(_of_torch(kind), unknown)
        if kind != made.type:
            with ir.InsertionPoint.at_block_begin(block):
                made = _cast("to_builtin_tensor", made, kind)
        argument.replace_all_uses_with(made)

    for argument in mutable:
        moved(argument)
    with ir.InsertionPoint(last), unknown:
        for value in returned:
            kind = _of_torch(value.type)
            result = _cast("from_builtin_tensor", value, kind) if form == "linalg" else value
            slot = block.add_argument(
                ir.Type.parse(str(kind).replace("vtensor", "tensor")), unknown
            )
            ir.Operation.create("torch.overwrite.tensor.contents", operands=[result, slot])
        func.ReturnOp([])
    last.erase()
    for argument in others:
        moved(argument)
    for argument in reversed(given):
        block.erase_argument(argument.arg_number)
    types = [argument.type for argument in block.arguments]
    entry.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    return [_described(str(kind)) for kind in types]


def _cast(name: str, value: Any, kind: Any) -> Any:
    from torch_mlir import ir

    return ir.Operation.create(f"torch_c.{name}", results=[kind], operands=[value]).result


def _of_torch(kind: Any) -> Any:
    """Return Torch's type for a tensor of MLIR; others stay as they are."""
    from torch_mlir import ir

    found = _TENSOR.fullmatch(str(kind))
    assert found is not None
    if found[5] is None:
        return kind
    dims = ",".join(found[4].split("x")[:-1])
    return ir.Type.parse(f"!torch.vtensor<[{dims}],{_SIGNED.get(found[5], found[5])}>")


def _described(text: str) -> dict[str, Any]:
    found = _TENSOR.fullmatch(text)
    assert found is not None
    dims = [int(digits) for digits in found[2].split(",") if digits]
    return {"output": not found[1], "data_type": _TYPES[found[3]], "dims": dims}
