# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An ONNX graph as MLIR: ``torch.operator "onnx.*"`` in a function, which torch-mlir converts.

Arguments are the run-time inputs, then the weights, which never become text.  Small constants do:
torch-mlir reads shapes, axes and scales from them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from math import prod

from ...graph_api.dtypes import DataType
from .model import Attribute, Constant, Model, Node, Value

__all__ = ["arguments", "text"]


def arguments(model: Model) -> tuple[str, ...]:
    """Return the names of the function's arguments, in order."""
    return (*model.inputs, *sorted(model.weights))


def text(model: Model) -> str:
    """Return the module; every node's location is its label."""
    return "\n".join(_lines(model))


def _lines(model: Model) -> Iterator[str]:
    numbers: dict[str, str] = {}
    taken = []
    for k, name in enumerate(arguments(model)):
        numbers[name] = f"%arg{k}"
        taken.append(f"%arg{k}: {_type(model.values[name])}")
    results = ", ".join(_type(model.values[name]) for name in model.outputs)
    yield f"func.func @main({', '.join(taken)}) -> ({results}) attributes {{{_about(model)}}} {{"
    yield "  %none = torch.constant.none"
    for k, (name, constant) in enumerate(model.constants.items()):
        numbers[name] = f"%c{k}"
        yield f"  %c{k} = {_operator('Constant', [], [])}{_constant(constant)}"
    made = 0
    for node in model.nodes:
        operands = [(numbers[n], _type(model.values[n])) for n in node.inputs if n]
        rest = iter(operands)
        words = [next(rest) if n else ("%none", "!torch.none") for n in node.inputs]
        # One that nobody wants at the end may be left out; one in between has a name.
        outputs = list(node.outputs)
        while outputs and not outputs[-1]:
            outputs.pop()
        mine = []
        for name in outputs:
            mine.append(f"%v{made}")
            if name:
                numbers[name] = mine[-1]
            made += 1
        kinds = [_type(model.values[n]) if n else "!torch.none" for n in outputs]
        yield (
            f"  {', '.join(mine)} = {_operator(node.op, words, kinds, _attributes(node))} "
            f"loc({json.dumps(node.label, ensure_ascii=True)})"
        )
    values = ", ".join(numbers[name] for name in model.outputs)
    yield f"  return {values} : {results}"
    yield "}"


def _about(model: Model) -> str:
    opset = model.opsets.get("", model.opsets.get("ai.onnx", 0))
    others = ", ".join(
        f"{json.dumps(domain)} = {version} : si64"
        for domain, version in sorted(model.opsets.items())
        if domain
    )
    return (
        f"torch.onnx_meta.ir_version = {model.ir_version} : si64, "
        f"torch.onnx_meta.opset_version = {opset} : si64, "
        f"torch.onnx_meta.opset_versions = {{{others}}}"
    )


def _operator(op: str, operands: list[tuple[str, str]], kinds: list[str], extra: str = "") -> str:
    values = ", ".join(value for value, _ in operands)
    types = ", ".join(kind for _, kind in operands)
    begin = f'torch.operator "onnx.{op}"({values}) {extra}'
    if op == "Constant":
        return begin
    made = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
    return f"{begin}: ({types}) -> {made}"


def _constant(constant: Constant) -> str:
    kind = f"!torch.vtensor<[{','.join(map(str, constant.dims))}],{constant.data_type.value.mlir}>"
    return f"{{torch.onnx.value = {_dense(constant)}}} : () -> {kind}"


def _type(value: Value) -> str:
    assert value.data_type is not None
    assert value.dims is not None
    dims = ",".join(str(d) if isinstance(d, int) else "?" for d in value.dims)
    return f"!torch.vtensor<[{dims}],{value.data_type.value.mlir}>"


def _attributes(node: Node) -> str:
    words = [f"torch.onnx.{n} = {_attribute(v)}" for n, v in sorted(node.attributes.items())]
    return f"{{{', '.join(words)}}} " if words else ""


def _attribute(value: Attribute) -> str:
    match value:
        case bool() | int():
            return f"{int(value)} : si64"
        case float():
            return _float(value)
        case str():
            return json.dumps(value, ensure_ascii=True)
        case Constant():
            return _dense(value)
    return f"[{', '.join(map(_attribute, value))}]"


def _float(value: float) -> str:
    """Return a number exactly; the text of a float has a point, and what is not finite bits."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return f"0x{bits:08X} : f32"


_BOOLEANS = {0: "false"}


def _dense(constant: Constant) -> str:
    kind = constant.data_type.value.mlir
    shape = "x".join(map(str, constant.dims))
    shaped = f"tensor<{shape}x{kind}>" if shape else f"tensor<{kind}>"
    if not prod(constant.dims):
        return f"dense<> : {shaped}"
    if constant.data_type is DataType.BOOLEAN:
        words = [_BOOLEANS.get(byte, "true") for byte in constant.data]
        return f"dense<{_nested(words, constant.dims)}> : {shaped}"
    return f'dense<"0x{constant.data.hex().upper()}"> : {shaped}'


def _nested(words: list[str], dims: tuple[int, ...]) -> str:
    if not dims:
        return words[0]
    step = len(words) // dims[0]
    parts = (_nested(words[k * step : (k + 1) * step], dims[1:]) for k in range(dims[0]))
    return f"[{', '.join(parts)}]"
