# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX models as modules: weights become arguments, so that they are never text.

Needs the package ``onnx`` (the extra ``onnx``).  Weights that are read as numbers by other ops,
such as the dims of a Reshape, stay constants; all others follow the model's inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...graph_api.errors import FormatError, NotSupportedError, Problem
from ...jit.compiler.client import default_compiler
from ...jit.options import WorkerOptions
from ...jit.settings_table import Settings

__all__ = ["RULES", "ImportedModel", "import_onnx"]

RULES: dict[str, str] = {
    "ONNX-01": "the file is an ONNX model that onnx reads and checks",
    "ONNX-02": "the node that is asked for is one of the model's, by its name",
    "ONNX-03": "the model says which version of each domain's operators it uses",
}

_TASK = f"{__package__}.passes.onnx_model"
_MOST = 16  # of int64: dims, positions, axes, which conversions want to see as numbers
_READ_NUMBERS = ("Resize", "Upsample")  # scales are floats, and no weights


@dataclass(frozen=True, kw_only=True)
class ImportedModel:
    """A model as a module.

    Attributes
    ----------
    text : bytes
        One function of ``torch.operator "onnx.*"``, each located by its node's name.
    inputs : tuple of str
        The model's inputs, the function's first arguments.
    weights : tuple of str
        The initializers that are its other arguments, in order.
    outputs : tuple of str
    """

    text: bytes
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]


def load_onnx() -> Any:
    """Return the package, or raise `NotSupportedError` with the command that installs it."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.shape_inference
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise NotSupportedError(
            "reading ONNX models needs the package onnx, which is not installed: "
            "pip install 'hipdnn-iree[onnx]'"
        ) from None
    return onnx


def import_onnx(path: str | Path, settings: Settings, *, node: str = "") -> ImportedModel:
    """Return a model file as a module.

    Parameters
    ----------
    path : str or path
        External data is not read.
    settings : Settings
    node : str
        Only this node, by its name: what it reads becomes arguments.

    Raises
    ------
    FormatError
        If it is no ONNX model, or has no such node.
    NotSupportedError
        If ``onnx`` is not installed.
    CompileError
        If torch-mlir has no form for something in the model.
    """
    onnx = load_onnx()
    with _told(str(path)):
        model = onnx.load(str(path), load_external_data=False)
    if not model.graph.node and not model.graph.output:
        raise _refused("ONNX-01", str(path), "a file without a graph", "an ONNX model")
    versions = {one.domain for one in model.opset_import}
    for i, one in enumerate(model.graph.node):
        one.name = one.name or f"{one.op_type}_{i}"
        if one.domain not in versions and not (one.domain == "ai.onnx" and "" in versions):
            got = f"{one.name} of domain {one.domain!r}, and no version of it"
            raise _refused("ONNX-03", str(path), got, "an opset_import for the domain")
    with _told(str(path)):
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    graph = model.graph
    if node:
        _keep(onnx, model, node, str(path))
    inputs = tuple(
        one.name for one in graph.input if one.name not in {i.name for i in graph.initializer}
    )
    weights = _weights_to_inputs(onnx, graph)
    compiler = default_compiler(WorkerOptions.of(settings))
    _, text = compiler.perform(_TASK, model.SerializeToString(), label=str(path))
    outputs = tuple(one.name for one in graph.output)
    return ImportedModel(text=text, inputs=inputs, weights=weights, outputs=outputs)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Tell what protobuf and onnx raise, which have no common base, as a broken rule."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise _refused("ONNX-01", path, said, "an ONNX model") from None


def _refused(rule: str, path: str, got: str, wanted: str, hint: str = "") -> FormatError:
    problem = Problem(rule=rule, port=path, got=got, wanted=wanted, hint=hint)
    return FormatError(f"{path} cannot be imported", [problem])


def _weights_to_inputs(onnx: Any, graph: Any) -> tuple[str, ...]:
    """Turn weights into inputs behind the others; return their names."""
    given = {one.name: one for one in graph.input}
    numbers = {word for one in graph.node if one.op_type in _READ_NUMBERS for word in one.input}
    kept, moved = [], []
    for one in graph.initializer:
        external = one.data_location == onnx.TensorProto.EXTERNAL
        most = _MOST if one.data_type == onnx.TensorProto.INT64 or one.name in numbers else 1
        if prod(one.dims) <= most and not external:
            kept.append(one)
            continue
        moved.append(one.name)
        if one.name in given:
            graph.input.remove(given[one.name])
        graph.input.append(
            onnx.helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
        )
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return tuple(moved)


def _keep(onnx: Any, model: Any, name: str, path: str) -> None:
    """Leave nothing in a model but one node, and what it reads as inputs."""
    graph = model.graph
    found = [one for one in graph.node if one.name == name]
    if not found:
        from difflib import get_close_matches

        names = [one.name for one in graph.node]
        near = get_close_matches(name, names, 3)
        hint = f"did you mean {', '.join(near)}?" if near else ""
        wanted = f"one of the {len(names)} nodes"
        raise _refused("ONNX-02", path, f"no node {name!r}", wanted, hint)
    (node,) = found[:1]
    known = {one.name: one for one in (*graph.input, *graph.value_info, *graph.output)}
    constants = {one.name for one in graph.initializer}
    made = {out: one for one in graph.node for out in one.output}
    reads = [word for word in dict.fromkeys(node.input) if word]
    first = [made[word] for word in reads if word in made and made[word].op_type == "Constant"]
    fed = {out for one in first for out in one.output}
    _replace(graph.node, [*first, node])
    _replace(graph.initializer, [one for one in graph.initializer if one.name in reads])
    wanted_inputs = [word for word in reads if word not in constants | fed]
    _replace(graph.input, _infos(known, wanted_inputs, path))
    _replace(graph.output, _infos(known, [word for word in node.output if word], path))


def _infos(known: Any, names: Sequence[str], path: str) -> list[Any]:
    missing = [name for name in names if name not in known]
    if missing:
        got = f"no type of {', '.join(missing)}"
        raise _refused("ONNX-01", path, got, "types that onnx's shape inference finds")
    return [known[name] for name in names]


def _replace(field: Any, entries: Sequence[Any]) -> None:
    copies = [type(one).FromString(one.SerializeToString()) for one in entries]
    del field[:]
    field.extend(copies)
