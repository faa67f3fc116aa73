# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX models of a few nodes, and sessions whose assignment is asserted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from hipdnn_iree.provider.onnx import DEFAULT_NAME, session_options
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT
Node = onnx.NodeProto


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> Node:
    """Return a node; names of values are separated by spaces, ``-`` is one that is left out."""
    words = [["" if n == "-" else n for n in side.split()] for side in (inputs, outputs)]
    domain = attributes.pop("domain", "")
    return helper.make_node(
        op, *words, name=name or f"{op}_{words[1][0]}", domain=domain, **attributes
    )


def model(
    nodes: Sequence[Node],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any]],
    weights: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    opset: int = 18,
    kinds: Mapping[str, int] | None = None,
) -> bytes:
    """Return a model; values are float32 unless ``kinds`` says otherwise."""
    known = kinds or {}

    def infos(values: Mapping[str, Sequence[Any]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(n, known.get(n, F), list(d)) for n, d in values.items()
        ]

    graph = helper.make_graph(
        list(nodes),
        "model",
        infos(inputs),
        infos(outputs),
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=domains, ir_version=10)
    return bytes(made.SerializeToString())


def values(shape: Sequence[int], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32)


def plain_options() -> Any:
    made = ort.SessionOptions()
    made.log_severity_level = 3
    made.intra_op_num_threads = 1
    return made


def session(
    source: Any, options: Mapping[str, object] | None = None, *, whole: bool = True, **entries: str
) -> Any:
    """Return a session on the provider's CPU device; with ``whole`` every node is on it."""
    made = plain_options()
    if recorded():
        made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    made.add_session_config_entry("session.disable_cpu_ep_fallback", str(int(whole)))
    for key, value in entries.items():
        made.add_session_config_entry(key.replace("__", "."), value)
    session_options(options, device="cpu", onto=made)
    return ort.InferenceSession(source, made, enable_fallback=0)


def recorded() -> bool:
    """Whether this onnxruntime says which provider has which node."""
    return hasattr(ort.InferenceSession, "get_provider_graph_assignment_info")


def assigned(found: Any) -> list[set[str]]:
    """Return the nodes of each group that the provider has."""
    return [
        {n.name for n in one.get_nodes()}
        for one in found.get_provider_graph_assignment_info()
        if one.ep_name == DEFAULT_NAME
    ]


def on_cpu(source: bytes, feed: Mapping[str, Any]) -> list[Any]:
    """Return what ONNX Runtime's own provider gives."""
    own = ort.InferenceSession(source, plain_options(), providers=["CPUExecutionProvider"])
    return list(own.run(None, dict(feed)))


def agree(
    source: bytes,
    feed: Mapping[str, Any],
    *,
    bound: float = 1e-4,
    options: Mapping[str, object] | None = None,
    whole: bool = True,
) -> Any:
    """Run a model on the provider, compare with ONNX Runtime's own, and return the session."""
    found = session(source, options, whole=whole)
    for got, wanted in zip(found.run(None, dict(feed)), on_cpu(source, feed), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=bound, atol=bound
        )
    return found
