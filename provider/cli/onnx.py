# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree onnx``: a model under ONNX Runtime with this provider, and the provider's file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ...jit.settings import settings
from .exits import CHECK_FAILED
from .files import file_errors, write_page
from .options import Group, State
from .output import complain, count, emit, facts, say, shown, table, working

JSON: dict[str, dict[str, str]] = {
    "model": {
        "model": "the file",
        "verified": "whether all outputs are those of ONNX Runtime's own provider; null: not asked",
        "in_file": "number of nodes in the file; null where the package onnx cannot say",
        "nodes": "number of nodes of the graph, as ONNX Runtime has optimised it",
        "assigned": "how many of them the provider has",
        "compiled": "those of them that hold compiled code (`EPContext`)",
        "groups": "of each graph `name`, `engine`, `policy` and `why` (who chose the engine, and "
        "what that rests on), `code` (what its code serves: `fixed` dims, `all sizes`, `buckets`, "
        "or `each size` when it is met), `each_size` (why it is that, or empty), `nodes`",
        "declined": "of each other node `node`, `op`, `rule`, `reason`",
        "inputs": "of each input of the run `name`, `dims`, and `open`: the sizes, by name, of "
        "dims that the model leaves open; null where it cannot run",
        "outputs": "with --verify, of each `name`, `ok`, `error`, `bound`",
        "times": "`session_s`; `run_us`, and `cpu_us` by ONNX Runtime's CPU provider alone, which "
        "runs no compiled code (null where it cannot run); of each of the `graphs` by itself "
        "`name`, `nodes`, `us`, and their sum `graphs_us`",
    },
    "path": {"library": "the file", "version": "version of the package"},
    "install": {"library": "the copy", "record": "the file that says which Python it belongs to"},
}


class _Models(Group):
    """A group whose first word may be a model in place of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [w for w in args if not w.startswith("-")]
        if words and words[0] not in self.commands:
            args = ["model", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Models)
def command() -> None:
    """Run a model with ONNX Runtime and this provider: `hipdnn-iree onnx MODEL.onnx`."""


@command.command("model")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Compare with ONNX Runtime's own provider; exit 1.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html", help="A picture.")
@click.option(
    "--inputs", type=click.Path(path_type=Path), metavar="FILE.npz", help="Arrays by name."
)
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Of the provider.")
@click.option("--target", default="", help="Compile for it; one that is not here is not run.")
@click.option(
    "--repeats", default=20, type=click.IntRange(1), show_default=True, help="Timed runs."
)
@click.pass_obj
def model(
    state: State,
    path: Path,
    verify: bool,
    report: Path | None,
    inputs: Path | None,
    options: tuple[str, ...],
    target: str,
    repeats: int,
) -> None:
    """Say which nodes of MODEL.onnx run as which graph, why others do not, and how fast.

    Three times are medians of a run: by a session with this provider; by one with ONNX Runtime's
    CPU provider alone; and that of the graphs by themselves, on bound memory, without ONNX Runtime.
    Inputs are made up; dims that the model leaves open have the size 2, or those of the arrays of
    --inputs.
    """
    from ..onnx.model_report import examine

    given = dict(_pair(text) for text in options)
    if target:
        given["target"] = target
    with file_errors(path), open(path, "rb"):
        pass
    with working(f"loading {path}"):
        found = examine(path, given, arrays=_arrays(inputs), verify=verify, repeats=repeats)
    reports = found.pop("reports")
    found = {"model": str(path), **found}
    if report is not None:
        from ..onnx.picture import html

        write_page(report, html(found, reports))
    if state.json:
        emit(found)
    else:
        _print(found)
    if found["verified"] is False:
        complain("the results are not those of ONNX Runtime's own provider")
        raise click.exceptions.Exit(CHECK_FAILED)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--option {text}: wanted NAME=VALUE")
    return name, value


def _arrays(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    import numpy as np

    with file_errors(path), np.load(path, allow_pickle=False) as held:
        return dict(held)


def _print(found: dict[str, Any]) -> None:
    from ..onnx.reports import HEADS, each_size, table_row

    times = found["times"]
    nodes = f"{found['assigned']} of {found['nodes']}"
    if found["in_file"] not in {None, found["nodes"]}:
        nodes += f" ({found['in_file']} in the file, before ONNX Runtime optimised it)"
    rows: list[tuple[str, object]] = [
        ("model", found["model"]),
        ("nodes", nodes),
        *([("compiled", len(found["compiled"]))] if found["compiled"] else []),
        ("session", f"{times['session_s']:.2f} s"),
    ]
    if times["run_us"] is not None:
        rows += [
            ("inputs", shown(_inputs(found["inputs"]))),
            (
                "run",
                "; ".join(_each_time(times)),
            ),
        ]
    if found["verified"]:
        worst = max(found["outputs"], key=lambda one: one["error"] / (one["bound"] or 1.0))
        off = f"{shown(worst['name'])} is {worst['error']:.2g} off, of {worst['bound']:.2g} allowed"
        rows.append(("verified", f"yes: {off}"))
    elif found["verified"] is not None:
        rows.append(("verified", False))
    facts(rows)
    slowest = {one["name"]: one["us"] for one in times["graphs"]}
    if found["groups"]:
        say()
        table(HEADS, [table_row(g, slowest.get(g["name"])) for g in found["groups"]])
        for line in each_size(found["groups"]):
            say(shown(line))
    if found["declined"]:
        say()
        say(count(len(found["declined"]), "node is declined:", "nodes are declined:"))
        table(
            ("node", "op", "rule", "reason"),
            [(d["node"], d["op"], d["rule"], d["reason"]) for d in found["declined"]],
        )
    for one in found["outputs"]:
        if not one["ok"]:
            say(f"{shown(one['name'])}: {one['error']} off; allowed: {one['bound']}")


def _each_time(times: dict[str, Any]) -> Iterator[str]:
    yield f"{times['run_us']:.1f} us"
    if times["graphs"]:
        yield f"its graphs by themselves {times['graphs_us']:.1f} us"
    if times["cpu_us"] is None:
        yield "ONNX Runtime's CPU provider cannot run it"
    else:
        yield f"by ONNX Runtime's CPU provider {times['cpu_us']:.1f} us"


def _inputs(inputs: list[dict[str, Any]]) -> str:
    """Return what was run, and verified, for people."""
    text = ", ".join(f"{one['name']} {one['dims']}" for one in inputs)
    sizes = {name: size for one in inputs for name, size in one["open"].items()}
    said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return f"{text}; open dims: {said}" if said else text


@command.command()
@click.pass_obj
def path(state: State) -> None:
    """Say where the provider's library is; it is built first where none was shipped."""
    from ... import __version__
    from ..onnx.onnx_library import LIBRARY

    found = LIBRARY.find(settings())
    if state.json:
        emit({"library": str(found), "version": __version__})
        return
    say(str(found))


@command.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.pass_obj
def install(state: State, folder: Path) -> None:
    """Copy the library into a folder, with the record of the Python that it belongs to."""
    from ..onnx.onnx_library import LIBRARY

    copy = LIBRARY.install(folder, settings())
    if state.json:
        emit({"library": str(copy), "record": f"{copy}.python"})
        return
    say(f"installed {shown(str(copy))}")
