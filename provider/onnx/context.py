"""Models with compiled code: an ``EPContext`` node for each group, which holds a program whole.

The node's text is the base64 of a file, or the name of one beside the model.  The file holds the
program, an artifact for each graph, and the weights.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import os
from collections.abc import Mapping
from ctypes import c_char_p, c_void_p
from dataclasses import replace

from ...graph_api.errors import ArtifactError, NotSupportedError
from ...graph_api.files import read_file, write_file
from ...jit.container import Container, DamagedError, pack
from ...jit.target import Target
from ..artifacts.artifact import Artifact
from ..artifacts.save import packed
from ..offload.finished import Program
from ..plan import Plan
from .abi import AttributeKind, OrtFunctions, RefusedError
from .model import Node
from .ort_graph import value_names
from .session_options import SessionOptions

__all__ = ["DEFAULT_NAME", "is_ours", "load", "write"]

DEFAULT_NAME = "HipDNNExecutionProvider"

_OP, _DOMAIN = "EPContext", "com.microsoft"
_FORMAT = 2
_KEY = "ep_cache_context"


def is_ours(node: Node, name: str) -> bool:
    """Whether a node holds code that a provider of this name, or of the default one, wrote."""
    return (
        node.op == _OP
        and node.domain == _DOMAIN
        and node.attributes.get("source") in (name, DEFAULT_NAME)
    )


def load(
    node: Node, target: Target, folder: str
) -> tuple[Program, dict[str, Plan], dict[str, memoryview]]:
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
        if held.body.get("format") != _FORMAT:
            raise ArtifactError(f"{label} has format {held.body.get('format')}; wanted {_FORMAT}")
        program = Program.from_json(held.body["program"])
        plans = {
            name: Artifact(held.part(f"plan/{k}"), label).plan(target)
            for k, name in enumerate(held.body["graphs"])
        }
        weights = {
            name: memoryview(held.part(f"weight/{k}")) for k, name in enumerate(program.weights)
        }
    except (DamagedError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"{label} is damaged: {error}") from None
    graphs = {name: plan.graph for name, plan in plans.items()}
    return replace(program, graphs=graphs), plans, weights


def write(
    ort: OrtFunctions,
    options: SessionOptions,
    name: str,
    *,
    program: Program | None = None,
    plans: Mapping[str, Plan] | None = None,
    data: Mapping[str, memoryview] | None = None,
    fused: int = 0,
) -> int:
    """Return a new node that holds a group's code.

    Raises
    ------
    NotSupportedError
        If there is none: the group was read from such a node, or an engine has no code to keep.
    """
    if program is None or plans is None or data is None:
        raise NotSupportedError("the model holds compiled code already")
    graphs = list(program.graphs)
    parts = {f"plan/{k}": packed([plans[graph]]) for k, graph in enumerate(graphs)}
    parts |= {f"weight/{k}": bytes(data[w]) for k, w in enumerate(program.weights)}
    body = {"format": _FORMAT, "program": program.as_json(graphs=False), "graphs": graphs}
    held = pack(body, parts)
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
        _attribute(ort, b"ep_sdk_version", str(_FORMAT).encode()),
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
