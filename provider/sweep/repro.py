# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A folder that repeats one row of a run by itself: graph, inputs, script, IR, versions.

::

    DIR/
        graph.json  inputs.npz  run.sh  row.json     what was asked, and what came of it
        stages/                                      code plan, IR, module, flags; of each dispatch
        compiler/                                    repeats a failed compilation with IREE alone
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from ...graph_api.errors import FormatError, Problem
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import KNOBS
from .contestants import Contestant
from .row import FAILED, Header, Row, Run
from .sources import read_all
from .suite import Case

__all__ = ["RULES", "about_row", "find_row", "graph_of", "script"]

RULES: dict[str, str] = {
    "REPRO-01": "a row of the run has the key or the case that is named",
    "REPRO-02": "the suite of the row still has its case, with the same graph",
}

_SIZES = {"exact": ["--exact"], "powers": ["--buckets", "powers"]}
"""Options of `run` for `contestants.SIZES`."""


def find_row(run: Run, name: str) -> tuple[Row, Header]:
    """Return the row that a key or the name of a case stands for, and its header.

    Of several rows of a case it is the first that failed, or the first.

    Raises
    ------
    FormatError
        If there is none (REPRO-01), with names that are like it.
    """
    found = [at for at, row in enumerate(run.rows) if name in (row.key, row.case)]
    if not found:
        known = {text: None for row in run.rows for text in (row.case, row.key)}
        near = get_close_matches(name, known, 3, 0.5)
        problem = Problem(
            rule="REPRO-01",
            got=name,
            wanted="the case or the key of a row",
            hint=f"did you mean {' or '.join(near)}?" if near else "hipdnn-iree report lists them",
        )
        raise FormatError("the run has no such row", [problem])
    at = next((at for at in found if run.rows[at].status in FAILED), found[0])
    return run.rows[at], run.headers[run.header_of[at]]


def script(
    row: Row, header: Header, contestant: Contestant, sizes: Mapping[str, int] | None = None
) -> str:
    """Return a shell script that runs a graph as a row has it, in the folder of the script.

    Parameters
    ----------
    row : Row
    header : Header
        Of the row; settings given to the sweep are exported.
    contestant : Contestant
        Who the row's engine is.
    sizes : mapping of str to int, optional
        Of dynamic dims.
    """
    settings: dict[str, str] = {**header.options.get("settings", {}), **contestant.settings}
    exports = "".join(
        f"export {variable}={shlex.quote(str(value))}\n"
        for variable, value in _variables(settings).items()
    )
    command = ["hipdnn-iree", "run", "graph.json", "--target", row.target]
    command += ["--emulate"] if row.emulated else []
    command += ["--engine", contestant.engine] if contestant.engine else []
    command += ["--policy", contestant.policy] if contestant.policy else []
    for name, value in row.knobs.items():
        command += ["--knob", f"{name}={value}"]
    for name, size in (sizes or {}).items():
        command += ["--shape", f"{name}={size}"]
    command += _SIZES.get(contestant.sizes, [])
    command += ["--inputs", "inputs.npz", "--verify"]
    if row.device == "none":  # it was compiled, and run nowhere
        knobs = [word for pair in row.knobs.items() for word in ("--knob", "=".join(pair))]
        command = ["hipdnn-iree", "compile", "graph.json", "--target", row.target, *knobs]
        command += ["--dump", "stages"]
    return f"""#!/bin/sh
# Repeats {_one_line(row.key)}
# {row.status}: {_one_line(row.detail)}
cd "$(dirname "$0")" || exit 1
{exports}exec {shlex.join(command)} "$@"
"""


def about_row(row: Row, header: Header) -> str:
    """Return a row and the conditions it was made under, as JSON text."""
    found: dict[str, Any] = {"row": msgspec.to_builtins(row), "run": msgspec.to_builtins(header)}
    return json.dumps(found, indent=2) + "\n"


def graph_of(row: Row, suite: str) -> tuple[FrozenGraph, dict[str, int]]:
    """Return the graph of a row, made again from its suite, and the sizes of its dynamic dims.

    Raises
    ------
    FormatError
        If the suite has no such case, or with another graph (REPRO-02), or cannot be read.
    """
    named = [case for case in read_all([suite], check=False).by_type() if _is_case(case, row)]
    if not named:
        raise _changed(row, suite, "no such case")
    graphs = [(case.freeze(), case) for case in named]
    same = [pair for pair in graphs if pair[0].digest == row.digest]
    if not same and row.digest:
        raise _changed(row, suite, f"one with digest {graphs[0][0].digest[:16]}")
    graph, case = (same or graphs)[0]
    return graph, {dim.name: case.sizes.get(dim.name, dim.example) for dim in graph.symbols}


def _is_case(case: Case, row: Row) -> bool:
    # A name that several suites of a sweep have got its suite's in front.
    named = row.case == case.name or row.case.endswith(f".{case.name}")
    return named and row.dtype == case.dtypes[0].json


def _changed(row: Row, suite: str, found: str) -> FormatError:
    problem = Problem(
        rule="REPRO-02",
        node=row.case,
        port=suite,
        got=found,
        wanted=f"the graph with digest {row.digest[:16] or 'of the row'}",
        hint="--suite names the suite as it was",
    )
    return FormatError("the suite has changed since the run", [problem])


def _variables(settings: Mapping[str, str]) -> dict[str, str]:
    names: Mapping[str, str] = {knob.field: knob.env for knob in KNOBS}
    return {names[field]: value for field, value in settings.items() if field in names}


def _one_line(text: str) -> str:
    words: Sequence[str] = "".join(c if c.isprintable() else " " for c in text).split()
    return " ".join(words)[:300]
