"""A graph's module in linalg, TOSA or StableHLO, converted by torch-mlir in a worker."""

from __future__ import annotations

from ..graph_api.errors import CompileError
from ..graph_api.frozen import FrozenGraph
from .compiler.client import default_compiler
from .compiler.diagnostics import clean, find_node
from .emit.dialects import DIALECTS
from .options import BuildOptions
from .target import Target

__all__ = ["DIALECTS", "in_dialect"]


def in_dialect(graph: FrozenGraph, target: Target, dialect: str, options: BuildOptions) -> str:
    """Return the module that would be compiled, in another dialect; outputs are results there.

    Parameters
    ----------
    dialect : str
        One of ``DIALECTS``.

    Raises
    ------
    CompileError
        If torch-mlir has no form for an op in the dialect, or breaks down, with the node.
    """
    from .lowering.module import lower_graph

    compiler = default_compiler(options.workers)
    compiler.start()
    source = lower_graph(graph, target, options.code.forms, compiler)
    label = f"{graph.name or 'the graph'} to {dialect}"
    try:
        _, text = compiler.perform("dialect", source.encode(), {"dialect": dialect}, label=label)
    except CompileError as error:
        nodes = {f"n{k}": node.label for k, node in enumerate(graph.nodes)}
        texts = list(dict.fromkeys(clean(text, nodes) for text in error.diagnostics))
        raise CompileError(
            error.message,
            stage=error.stage,
            node=find_node(error.diagnostics, source, nodes),
            diagnostics=texts,
        ) from None
    return text.decode()
