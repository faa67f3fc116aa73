# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree show``: a graph as text, JSON, a FlatBuffer, a picture, or MLIR."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...graph_api.errors import GraphError, NotSupportedError
from ...jit.emit.dialects import DIALECTS
from ...jit.settings import settings
from .options import Command, State, graph_argument, output_option, target_option
from .output import complain, talk, versioned, working

if TYPE_CHECKING:
    from ...graph_api.errors import Problem
    from ...graph_api.frozen import FrozenGraph
    from ...jit.mlir_source import MlirSource
    from ...jit.target import Target
    from ..graph import Graph
    from ..pages.shown import Coloured

JSON: dict[str, str] = {
    "tensors, ...": "with `nodes`: the graph in hipDNN's graph JSON, with everything inferred",
    "nodes": "of the graph; with `--format plan` of each `node`, `op`, `strategy`, `help`, "
    "`estimates_us` (by name, where the strategy was chosen by them), `materialised`, "
    "`results_materialised`, `outputs_copied`, `explicit_padding`, `workarounds`",
    "flags": "with `--format plan`: of each `flag`, `reason`",
    "workarounds": "with `--format plan`: of each `id`, `title`, `instead`",
    "attempt": "with `--format plan`: which way serves where the planned one is known not to "
    "compile, or null; the plan is of it",
    "failed": "with `--format plan`: what was tried before it: `attempt`, `stage`, `cause`, "
    "`said`, `reproducer`",
    "name, from, digest": "of an MLIR module: its name, form and digest",
    "arguments": "of an MLIR module: by name `data_type` and `dims`",
}
PICTURES = ("svg", "html")
FORMATS = (
    *("text", "json", "bin", "dot", "mermaid", *PICTURES),
    *("plan", "torch", *DIALECTS, "digest"),
)
DRAWN = ("text", "json", "dot", "mermaid", *PICTURES)  # of a graph that breaks rules too
ERAS = ("node", "n25")
_MOST = 100  # remarks


@click.command(cls=Command)
@graph_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="text (the default), json (hipDNN's graph JSON, the newest form), bin (the FlatBuffer "
    "that hipDNN hands to plugins), dot (Graphviz), mermaid, svg (a picture, coloured by engine "
    "and by what is fused for the target), html (the same as a page, with the dispatches), plan "
    "(what is decided about the code: strategies, copies, compiler flags, compiler defects that "
    "are avoided), torch (the MLIR that "
    "is compiled), linalg, tosa or stablehlo (the same, converted by torch-mlir; outputs are "
    "results there), digest (of what the graph computes).",
)
@click.option(
    "--era",
    type=click.Choice(ERAS),
    help="With --format bin: the newest form (node, the default), or that of November 2025 (n25).",
)
@output_option("Where to write it, instead of stdout.")
@target_option(help="Target of the MLIR.")
@click.pass_obj
def command(
    state: State,
    graph: str,
    kind: str | None,
    era: str | None,
    output: str | None,
    target: Target,
) -> None:
    """Print or convert GRAPH, with everything inferred that the file leaves open.

    A graph that breaks rules is shown as text, json, dot, mermaid, svg or html, with the rules as
    remarks on stderr; its other forms need a sound one.  ``--json`` is the same as
    ``--format json``.

    Of an MLIR module there are text and json (what its function takes and returns), torch (as it
    is compiled), linalg, tosa, stablehlo and digest.
    """
    from ...jit.mlir_source import MlirSource
    from .files import read_graph, read_source, write

    if state.json and kind not in (None, "json", "plan"):
        raise click.UsageError(f"--json and --format {kind} exclude each other")
    kind = kind or ("json" if state.json else "text")
    if era is not None and kind != "bin":
        raise click.UsageError("--era goes with --format bin")
    if kind == "bin":
        data = _binary(read_graph(graph), era or ERAS[0])
        if output is None and sys.stdout.isatty():
            raise click.UsageError("--format bin is nothing for a terminal; name a file with -o")
    else:
        found, _ = read_source(graph)
        if isinstance(found, MlirSource):
            text = _module(found, kind)
        elif kind == "plan":
            text = _plan(found.freeze(), target, as_json=state.json)
        else:
            text = _text(found, kind, target)
        # A lone surrogate in a name comes out as \udxxx, which JSON reads back as the same name.
        data = f"{text.rstrip()}\n".encode("utf-8", "backslashreplace")
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write(output, data)
        talk(f"wrote {output}")


def _module(source: MlirSource, kind: str) -> str:
    """Return an MLIR module in one of the formats."""
    if kind in DIALECTS:
        from ...jit.dialects import converted
        from ...jit.options import WorkerOptions
        from ...jit.settings import settings

        return converted(source.text, kind, WorkerOptions.of(settings()), label=source.name)
    args = {
        spec.name: {"data_type": spec.data_type.json, "dims": list(spec.dims)}
        for spec in source.frame.tensors.values()
    }
    lines = [f"{name}  {arg['data_type']} {arg['dims']}" for name, arg in args.items()]
    about = {"name": source.name, "from": source.form, "digest": source.digest, "arguments": args}
    texts = {
        "text": "\n".join([f"{source.name}: MLIR module, from {source.form}", *lines]),
        "json": json.dumps(versioned(about), indent=2),
        "torch": source.text,
        "digest": source.digest,
    }
    if kind not in texts:
        raise click.UsageError(f"--format {kind} is for graphs; {source.name} is an MLIR module")
    return texts[kind]


def _binary(graph: Graph, era: str) -> bytes:
    from ...graph_api.formats.flatbuffer.encode import encode
    from ...graph_api.formats.flatbuffer.schema_types import Era

    now = settings()
    return encode(
        graph.freeze(),
        Era(era),
        inv_variance=now.graph_inv_variance,
        backward_operands=now.graph_backward_operands,
    )


def _unsound(graph: Graph, kind: str, problems: Sequence[Problem]) -> str:
    """Return what is known of a graph that breaks rules, and tell which."""
    from ...graph_api.draw import to_dot, to_mermaid
    from ...graph_api.formats.json.json_form import dumps
    from ...graph_api.sketch import sketch

    for problem in problems[:_MOST]:
        complain(f"remark: {problem}")
    if len(problems) > _MOST:
        complain(f"remark: and {len(problems) - _MOST} more")
    if kind == "text":
        return repr(graph)
    if kind in PICTURES:
        from ..pages.graph_diagram import draw_unfrozen
        from ..pages.markup import Markup
        from ..pages.shown import Coloured

        return _drawn(graph, Coloured(draw_unfrozen(graph), Markup(), ""), kind)
    write = {"json": dumps, "dot": to_dot, "mermaid": to_mermaid}
    return write[kind](sketch(graph))


def _served(graph: FrozenGraph, target: Target) -> Coloured:
    """Return a graph by the engine that would serve it, and by what that fuses."""
    from ..pages.shown import by_candidate, uncoloured
    from ..selection.select import choose

    try:
        chosen = choose(graph, target, settings())
    except NotSupportedError as error:
        return uncoloured(graph, f"No engine serves it for {target}: {error.message}")
    with working("asking the compiler what it fuses"):
        return by_candidate(chosen)


def _drawn(graph: Graph, found: Coloured, kind: str) -> str:
    """Return a picture, or the page around it."""
    from ..pages.page import alone
    from ..pages.shown import graph_page

    if kind == "html":
        return graph_page(graph, found)
    if found.drawn.diagram is None:
        raise NotSupportedError(f"{found.drawn.nodes} nodes are too many for a picture")
    return alone(found.drawn.diagram)


def _plan(graph: FrozenGraph, target: Target, *, as_json: bool) -> str:
    """Return what is decided about the code of a graph; nothing is lowered for it."""
    from ...jit.options import BuildOptions
    from ...jit.pipeline import find

    found = find(graph, target, BuildOptions.of(settings()))
    plan = found.job.plan
    if as_json:
        return json.dumps(versioned({**plan.as_dict(graph), **found.as_dict()}), indent=2)
    return "\n".join([*found.lines(), *plan.lines(graph)])


def _text(graph: Graph, kind: str, target: Target) -> str:
    try:
        frozen = graph.freeze()
    except GraphError as error:
        if kind not in DRAWN:
            raise
        return _unsound(graph, kind, error.problems)
    if kind == "json":
        return graph.to_json()
    if kind == "dot":
        return graph.to_dot()
    if kind == "mermaid":
        return graph.to_mermaid()
    if kind in PICTURES:
        return _drawn(graph, _served(frozen, target), kind)
    if kind == "digest":
        return frozen.digest
    if kind == "torch":
        from ..selection.select import choose

        choose(frozen, target, settings(), engine_name="iree")
        with working("lowering"):
            from ...jit import bindings
            from ...jit.code_plan import plan_code
            from ...jit.compiler.client import default_compiler
            from ...jit.options import BuildOptions

            options = BuildOptions.of(settings())
            compiler = default_compiler(options.workers)
            plan = plan_code(frozen, target, options.code.strategies)
            return bindings.lower_graph(frozen, target, plan, compiler)
    if kind in DIALECTS:
        from ...jit.dialects import in_dialect
        from ...jit.options import BuildOptions
        from ..selection.select import choose

        choose(frozen, target, settings(), engine_name="iree")
        with working("lowering"):
            return in_dialect(frozen, target, kind, BuildOptions.of(settings()))
    return repr(graph)
