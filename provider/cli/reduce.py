# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree reduce``: a small graph that fails as a large one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...graph_api.errors import SettingError
from .options import (
    COMPILING,
    Command,
    State,
    graph_argument,
    knob_options,
    output_option,
    target_option,
)
from .output import count, emit, say, shown, talk

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.target import Target

JSON: dict[str, str] = {
    "status, detail": "how the graph fails, as in a row of a sweep",
    "nodes": "`before` and `after`",
    "elements": "of all tensors, `before` and `after`",
    "asked": "graphs that were built",
    "digest": "of the small graph",
    "file": "where it was written, or null",
}


@click.command(cls=Command)
@graph_argument
@target_option()
@click.option("--engine", default="iree", show_default=True, help="As in `sweep`.")
@click.option("--emulate", "emulation", is_flag=True, help="Execute code for gfx9 by emulation.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For one graph; one that takes longer fails as `timeout`.",
)
@output_option("Where to write the small graph, instead of stdout.")
@knob_options(*(name for name in COMPILING if name != "--timeout"))
@click.pass_obj
def command(
    state: State,
    graph: str,
    target: Target,
    engine: str,
    emulation: bool,
    limit_s: float,
    output: str | None,
) -> None:
    """Make GRAPH small while it fails in the same way: wrong, crash, timeout.

    Nodes are left out, extents made smaller, parameters, layouts and types plainer, as long as
    the status stays, and the message but for its numbers and names.  Each graph is built and
    checked in a process of its own.
    """
    from ...graph_api.formats.json.json_form import dumps
    from ..sweep.case_task import SweepOptions
    from ..sweep.failure import Judge
    from ..sweep.process_pool import Limits
    from ..sweep.reduce import reduced
    from .files import read_graph, write

    whole = read_graph(graph).freeze()
    options = SweepOptions(emulate=emulation, settings=dict(state.knobs))
    with Judge(engine, str(target), options, Limits(timeout_s=limit_s)) as judge:
        first = judge(whole)
        if not first.broken:
            said = f": {first.detail}" if first.detail else ""
            raise SettingError(f"{graph} does not fail here with {engine}: {first.status}{said}")
        talk(f"{first.status}: {first.detail}")
        small = reduced(whole, lambda part: judge(part).like(first), told=_tell)
    text = f"{dumps(small)}\n"
    if output is not None:
        write(output, text.encode())
    if state.json:
        emit(
            {
                "status": first.status,
                "detail": first.detail,
                "nodes": {"before": len(whole.nodes), "after": len(small.nodes)},
                "elements": {"before": _elements(whole), "after": _elements(small)},
                "asked": judge.asked,
                "digest": small.digest,
                "file": output,
            }
        )
    elif output is None:
        click.echo(text, nl=False)
    else:
        say(shown(f"{output}: {_size(small)}, of {_size(whole)}; {judge.asked} graphs were built"))


def _tell(graph: FrozenGraph) -> None:
    talk(f"still fails: {_size(graph)}")


def _size(graph: FrozenGraph) -> str:
    nodes = count(len(graph.nodes), "node", "nodes")
    return f"{nodes}, {count(_elements(graph), 'element', 'elements')}"


def _elements(graph: FrozenGraph) -> int:
    from math import prod

    return sum(prod(spec.dims) for spec in graph.tensors.values())
