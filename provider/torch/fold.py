# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a graph computes from constants alone is computed once, when it is compiled."""

from __future__ import annotations

from typing import Any

from ..torch_import import load_torch

__all__ = ["fold_constants"]

_MOST_BYTES = 1 << 20
"""A result that is larger is computed at each call, so that masks and tables take no memory."""


def fold_constants(graph_module: Any) -> None:
    """Replace nodes that read no argument, such as positions and masks, by their values.

    Not under a mode of fake tensors, in which they have none.
    """
    torch = load_torch()
    graph = graph_module.graph
    values: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            values[node] = getattr(graph_module, node.target, None)
        elif node.op == "call_function" and all(n in values for n in node.all_input_nodes):
            value = _value(torch, node, values)
            if value is not None:
                values[node] = value
    for number, (node, value) in enumerate(values.items()):
        if node.op == "get_attr" or all(user in values for user in node.users):
            continue
        name = f"_hipdnn_constant_{number}"
        graph_module.register_buffer(name, value, persistent=False)
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
    graph.eliminate_dead_code()
    graph_module.recompile()


def _value(torch: Any, node: Any, values: dict[Any, Any]) -> Any:
    """Return the tensor that a node gives each time, or None where that is not so."""
    meta = node.meta.get("val")
    operator = isinstance(node.target, torch._ops.OpOverload)
    if not operator or not isinstance(meta, torch.Tensor) or meta.nbytes > _MOST_BYTES:
        return None
    schema = node.target._schema
    random = torch.Tag.nondeterministic_seeded in node.target.tags
    if schema.is_mutable or random:
        return None
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
    return node.target(*args, **kwargs)
