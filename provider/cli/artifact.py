# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree artifact``: one file with a graph and its code, made, shown and checked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.buckets import in_words
from ...jit.settings import settings
from ...jit.settings_table import with_values
from .exits import exit_code
from .options import (
    COMPILING,
    Group,
    State,
    buckets_option,
    engine_knob_option,
    graph_argument,
    knob_options,
    target_option,
)
from .output import complain, count, emit, facts, say, shown, table, talk

if TYPE_CHECKING:
    from ...jit.target import Target
    from ..artifacts.artifact import Artifact

_ABOUT = {
    "path": "the file",
    "nbytes": "its size",
    "format, version": "what it is, and the form of its manifest",
    "made_by": "version of each distribution that made it",
    "graph": "`name`, `digest`, `part`",
    "plans": "of each one `engine`, `engine_id`, `knobs`, `target`, `bucket` (sizes that the "
    "code is made for; empty where it is not for a bucket), `code` (its part), `nbytes`, "
    "`sha256`, `key` (`digest`, `ingredients`), `signature`, `workspace_bytes` (null: it depends "
    "on sizes), `statistics`, `runs_here`: whether this machine has what it needs (for a GPU a "
    "device of its kind that HIP finds), and `why_not_here`: empty where it runs",
    "parts": "of each part `size` and `sha256`",
}
JSON: dict[str, dict[str, str]] = {
    "create": {**_ABOUT, "error": "the first failure; not there without one"},
    "show": _ABOUT,
    "verify": {
        "path": "the file",
        "ok": "true",
        "parts": "how many were checked",
        "plans": "how many",
    },
}


@click.group(cls=Group)
def command() -> None:
    """Make, show and check artifacts: one file with a graph and code for targets.

    An artifact is loaded without the compiler, and everything but running it works without a
    device.  `run`, `show` and `explain` take it like a graph file.
    """


@command.command()
@graph_argument
@target_option(
    default=None, multiple=True, help="Target to compile for; may be repeated, or joined by commas."
)
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to write it.")
@engine_knob_option
@buckets_option("Compile for sizes that those of dynamic dims are rounded up to")
@knob_options("--jobs", *COMPILING)
@click.pass_obj
def create(
    state: State,
    graph: str,
    targets: tuple[Target, ...],
    output: str,
    chosen_knobs: dict[str, str],
    buckets: Any,
) -> None:
    """Compile GRAPH for each target and write graph and code into one FILE.

    Nothing is written when a target fails; the exit code is that of the first failure.
    """
    from ..artifacts.save import save_artifact
    from ..precompile import pairs, precompile
    from ..selection.select import build
    from .files import file_errors, read_graph
    from .progress import Progress

    frozen = read_graph(graph).freeze()
    targets = tuple(dict.fromkeys(targets))
    with Progress("compiling", len(pairs([frozen], targets, buckets))) as progress:
        made = precompile(
            [frozen],
            targets,
            knobs=chosen_knobs,
            buckets=buckets,
            progress=lambda one: progress.step(),
        )
    for one in made:
        if one.error is not None:
            where = f"{one.target} at {in_words(one.bucket)}" if one.bucket else one.target
            complain(f"error [{one.error.code}]: {where}: {one.error}")
    failures = [one.error for one in made if one.error is not None]
    if failures:
        if state.json:
            emit({"error": {**failures[0].as_dict(), "exit_code": exit_code(failures[0])}})
        raise click.exceptions.Exit(exit_code(failures[0]))
    now = with_values(settings(), cache_require_precompiled=False)
    with file_errors(output, "write"):
        # From the cache by now, or compiled again where there is none.
        plans = [
            build(frozen, t, now, engine="iree", knobs=chosen_knobs or None, buckets=buckets)
            for t in targets
        ]
        artifact = save_artifact(output, plans)
    if state.json:
        emit(_about(artifact))
    else:
        talk(f"wrote {output}")
        _print(_about(artifact))


@command.command()
@click.argument("file", metavar="FILE")
@click.pass_obj
def show(state: State, file: str) -> None:
    """Say what is in FILE, and whether its code can run here."""
    about = _about(_load(file))
    if state.json:
        emit(about)
    else:
        _print(about)


@command.command()
@click.argument("file", metavar="FILE")
@click.pass_obj
def verify(state: State, file: str) -> None:
    """Check every byte of FILE, and that graph and code belong together; exit code 1 if not."""
    artifact = _load(file)
    artifact.verify()
    parts, plans = len(artifact.manifest.parts) + 1, len(artifact.plans)
    if state.json:
        emit({"path": file, "ok": True, "parts": parts, "plans": plans})
    else:
        held = f"{count(parts, 'part', 'parts')} and {count(plans, 'plan', 'plans')}"
        say(f"{shown(file)}: {held}, sound")


def _load(path: str) -> Artifact:
    from ..artifacts.artifact import load_artifact
    from .files import file_errors

    with file_errors(path):
        return load_artifact(path)


def _about(artifact: Artifact) -> dict[str, Any]:
    from .device_here import why_no_device

    missing = cache(why_no_device)  # asks ROCm's library in another process
    found = artifact.manifest.as_dict()
    for plan, record in zip(found["plans"], artifact.plans, strict=True):
        plan["engine_id"] = str(record.engine_id)
        plan["nbytes"], plan["sha256"] = record.nbytes, record.sha256
        plan["why_not_here"] = why = artifact.why_not_here(record) or missing(record.target)
        plan["runs_here"] = not why
    return {"path": artifact.label, "nbytes": artifact.nbytes, **found}


def _print(about: dict[str, Any]) -> None:
    made_by = about["made_by"]
    iree = made_by.get("iree-base-compiler")
    facts(
        [
            ("artifact", f"{Path(about['path']).name}, {about['nbytes']:,} bytes"),
            ("graph", f"{about['graph']['name'] or '(no name)'}  {about['graph']['digest'][:16]}"),
            ("made by", f"hipdnn-iree {made_by.get('hipdnn-iree')}, IREE {iree}"),
        ]
    )
    say()
    buckets = any(plan["bucket"] for plan in about["plans"])
    table(
        [
            "target",
            *(["bucket"] if buckets else []),
            "engine",
            "knobs",
            "code bytes",
            "dispatches",
            "workspace bytes",
            "here",
        ],
        [
            [
                plan["target"],
                *([in_words(plan["bucket"]) or "-"] if buckets else []),
                plan["engine"],
                ", ".join(f"{k}={v}" for k, v in plan["knobs"].items()) or "-",
                plan["nbytes"],
                plan["statistics"].get("dispatches"),
                plan["workspace_bytes"],
                plan["why_not_here"] or "runs",
            ]
            for plan in about["plans"]
        ],
    )
