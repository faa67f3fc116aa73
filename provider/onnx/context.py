# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with compiled code: an ``EPContext`` node for each group, which holds a program whole.

The node's text is the base64 of a file, or the name of one beside the model.  The file holds the
program, an artifact for each graph, and the weights.  Where extents are known at execution it holds
what gives the program at any sizes, and the graphs' code serves all of them.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import c_char_p, c_void_p
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...graph_api.errors import ArtifactError, NotSupportedError
from ...graph_api.files import read_file, write_file
from ...jit.container import Container, DamagedError, pack
from ...jit.target import Target
from ..artifacts.artifact import Artifact
from ..artifacts.save import packed
from ..offload.finished import Program
from ..offload.memory import FileBytes
from ..offload.sizes import Dims, Family, Programs, Sizes
from ..plan import Plan
from .abi import AttributeKind, OrtFunctions, RefusedError
from .model import Node
from .ort_graph import value_names
from .session_options import SessionOptions

__all__ = ["DEFAULT_NAME", "Code", "is_ours", "load", "write"]

DEFAULT_NAME = "HipDNNExecutionProvider"

_OP, _DOMAIN = "EPContext", "com.microsoft"
_FIXED, _SIZED = 2, 3
"""Formats of the file: of a program, and of one for all sizes."""
_KEY = "ep_cache_context"


@dataclass(frozen=True, kw_only=True)
class Code:
    """What a group becomes: a program, or programs for all sizes.

    Attributes
    ----------
    program : Program or Programs
    plans : mapping of str to Plan
        Of a program, by the name of their graph.
    dims : mapping of str to sequence
        Of each input, where there are programs for all sizes: extents and names.
    weights : mapping of str to memoryview or FileBytes
        The bytes of each one, in the program's order.
    """

    program: Program | Programs
    plans: Mapping[str, Plan] = field(default_factory=dict)
    dims: Mapping[str, Dims] = field(default_factory=dict)
    weights: Mapping[str, memoryview | FileBytes]


def is_ours(node: Node, name: str) -> bool:
    """Whether a node holds code that a provider of this name, or of the default one, wrote."""
    return (
        node.op == _OP
        and node.domain == _DOMAIN
        and node.attributes.get("source") in (name, DEFAULT_NAME)
    )


def load(node: Node, target: Target, folder: str) -> Code:
    """Return program, plans and weights of a node; nothing is compiled.

    Raises
    ------
    ArtifactError
        If the code is damaged, or made for another version.
    NotSupportedError
        If it is for another target.
    DeviceError
        If this CPU lacks instructions that it needs.
    """
    label = f"the code of node {node.label!r}"
    text = node.attributes.get(_KEY, "")
    if not isinstance(text, str) or not text:
        raise ArtifactError(f"{label}: there is none")
    if node.attributes.get("embed_mode", 1):
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ArtifactError(f"{label} is no base64: {error}") from None
    else:
        if os.path.basename(text) != text or text in (".", ".."):
            raise ArtifactError(f"{label} is in {text!r}, which is no file beside the model")
        try:
            data = read_file(os.path.join(folder, text))
        except OSError as error:
            raise ArtifactError(f"{label} is in {text!r}, which cannot be read: {error}") from None
    try:
        held = Container(data)
        return _read(held, target, label)
    except (DamagedError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"{label} is damaged: {error}") from None


def _read(held: Container, target: Target, label: str) -> Code:
    body = held.body
    written = body.get("format")
    if written not in (_FIXED, _SIZED):
        raise ArtifactError(f"{label} has format {written}; wanted {_FIXED} or {_SIZED}")
    plans = {
        name: Artifact(held.part(f"plan/{k}"), label).plan(target)
        for k, name in enumerate(body["graphs"])
    }
    if written == _FIXED:
        program = Program.from_json(body["program"])
        graphs = {name: plan.graph for name, plan in plans.items()}
        weights = _weights(held, program.weights)
        return Code(program=replace(program, graphs=graphs), plans=plans, weights=weights)
    every = Family.from_json(body["family"])
    every.plans.update({name: (plan, body["rules"][name]) for name, plan in plans.items()})
    dims = {name: tuple(found) for name, found in body["dims"].items()}
    weights = _weights(held, every.template["weights"])
    return Code(program=Programs(partial(_outside, every), every), dims=dims, weights=weights)


def _weights(held: Container, names: Sequence[str]) -> dict[str, memoryview]:
    return {name: memoryview(held.part(f"weight/{k}")) for k, name in enumerate(names)}


def _outside(every: Family, sizes: Sizes) -> tuple[Program, dict[str, Plan]]:
    raise NotSupportedError(
        f"the model with compiled code serves sizes from {every.lowest} to {every.highest}; got "
        f"{every.in_words(sizes)}; run the model that it was written from"
    )


def write(
    ort: OrtFunctions,
    options: SessionOptions,
    fused: int,
    code: Code | None,
) -> int:
    """Return a new node that holds a group's code.

    Raises
    ------
    NotSupportedError
        If there is none: the group was read from such a node, or an engine has no code to keep.
    """
    if code is None:
        raise NotSupportedError("the model holds compiled code already")
    body, held = _packed(code)
    label = ort.text("Node_GetName", fused)
    if options.embed:
        text = base64.b64encode(held)
    else:
        assert options.context is not None
        file = options.context.with_name(f"{options.context.stem}_{_plain(label)}.hipdnn-iree")
        write_file(file, held)
        text = os.fsencode(file.name)
    attributes = [
        _attribute(ort, b"embed_mode", int(options.embed)),
        _attribute(ort, b"main_context", 1),
        _attribute(ort, _KEY.encode(), text),
        _attribute(ort, b"source", DEFAULT_NAME.encode()),
        _attribute(ort, b"ep_sdk_version", str(body["format"]).encode()),
        _attribute(ort, b"partition_name", label.encode()),
    ]
    sides = (
        value_names(ort, ort.pointers(fused, "Node_GetNumInputs", "Node_GetInputs")),
        value_names(ort, ort.pointers(fused, "Node_GetNumOutputs", "Node_GetOutputs")),
    )
    inputs, outputs = (
        (c_char_p * max(len(names), 1))(*(n.encode("utf-8", "surrogateescape") for n in names))
        for names in sides
    )
    held_attributes = (c_void_p * len(attributes))(*attributes)
    return ort.pointer(
        "CreateNode",
        _OP.encode(),
        _DOMAIN.encode(),
        label.encode(),
        inputs,
        len(sides[0]),
        outputs,
        len(sides[1]),
        held_attributes,
        len(attributes),
    )


def _packed(code: Code) -> tuple[dict[str, Any], bytes]:
    """Return what a file says of a group, and the file."""
    program, plans = code.program, code.plans
    body: dict[str, Any]
    if isinstance(program, Program):
        body = {"format": _FIXED, "program": program.as_json(graphs=False)}
    else:
        every = program.family
        assert every is not None
        plans = {name: plan for name, (plan, _) in every.plans.items()}
        rules = {name: dims for name, (_, dims) in every.plans.items()}
        body = {"format": _SIZED, "family": every.as_json(), "rules": rules, "dims": code.dims}
    body["graphs"] = list(plans)
    parts = {f"plan/{k}": packed([plan]) for k, plan in enumerate(plans.values())}
    parts |= {f"weight/{k}": _whole(data) for k, data in enumerate(code.weights.values())}
    return body, pack(body, parts)


def _whole(data: memoryview | FileBytes) -> bytes:
    if isinstance(data, memoryview):
        return bytes(data)
    made = bytearray(data.nbytes)
    data.read_into(memoryview(made))
    return bytes(made)


def _attribute(ort: OrtFunctions, name: bytes, value: int | bytes) -> int:
    if isinstance(value, int):
        number = ctypes.c_int64(value)
        return ort.pointer("CreateOpAttr", name, ctypes.byref(number), 1, int(AttributeKind.INT))
    if len(value) >= 1 << 31:
        raise RefusedError(
            1, f"{len(value)} bytes of code are too many for a node; use ep.context_embed_mode 0"
        )
    memory = ctypes.create_string_buffer(value, len(value))
    return ort.pointer("CreateOpAttr", name, memory, len(value), int(AttributeKind.STRING))


def _plain(label: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in label)[:100]
