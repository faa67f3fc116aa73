# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree ops``: what a graph may hold, and what of it is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.arguments import nearest
from ...graph_api.compositions import Compositions
from ...graph_api.dtypes import DataType
from ...graph_api.elsewhere import here
from ...graph_api.ops import OPS
from ...graph_api.ops.base import Op, Port
from ...graph_api.ops.pointwise_methods import PointwiseMethods
from .options import Command, State
from .output import emit, facts, say, table

if TYPE_CHECKING:
    from ..sweep.serving import Served

    ByType = Mapping[DataType, Mapping[str, Served]]

JSON: dict[str, str] = {
    "ops": "of each one `name`, `wire_code` (number of hipDNN's node type; null for what hipDNN "
    "does not have), `json_type`, `inputs` and `outputs` (`name`, `optional`, `variadic`), "
    "`parameters` (`name`, `type`, `default`, `required`, `choices`), `dtypes`, and `targets`: by "
    "target and data type the number of sample problems (`samples`) and of those `served`, and by "
    "rule those `declined`",
}


@click.command(cls=Command)
@click.argument("names", metavar="[OP]...", nargs=-1)
@click.pass_obj
def command(state: State, names: tuple[str, ...]) -> None:
    """List the operations, or tell all about each OP: ports, parameters, what is served.

    Served or declined is told of the sample problems with which each operation is tested;
    nothing is compiled for that.  `hipdnn-iree explain GRAPH` tells it of a graph.
    """
    if unknown := [n for n in names if n not in OPS]:
        told = (f"no op {unknown[0]!r}", _instead(unknown[0]), f"known: {', '.join(OPS)}")
        raise click.UsageError("; ".join(filter(None, told)))
    if not names and not state.json:
        _list()
        return
    from ..sweep.serving import serving

    found = serving(names or tuple(OPS))
    if state.json:
        emit({"ops": [_described(OPS[n], served) for n, served in found]})
        return
    for k, (name, served) in enumerate(found):
        if k:
            say()
        _tell(OPS[name], served)


def _instead(name: str) -> str:
    """Return what a name is that is no op: a mode, a composition, or another library's word."""
    if name in vars(PointwiseMethods):
        return "it is a mode of pointwise"
    if name in vars(Compositions):
        return f"it is a composition of ops, Graph.{name}"
    return here(name) or nearest(name, OPS)


def _list() -> None:
    table(
        ["op", "wire code", "type in JSON", "inputs", "outputs"],
        [
            (
                op.NAME,
                op.WIRE_CODE,
                op.TYPE_NAME,
                _ports(op.INPUTS),
                _ports(op.OUTPUTS),
            )
            for op in OPS.values()
        ],
    )
    say()
    say("? optional, * any number; 'hipdnn-iree ops OP' tells parameters, data types and targets")


def _ports(ports: Sequence[Port]) -> str:
    """Return the ports for a line: where they are many, those that must be connected."""
    needed = [p for p in ports if not p.optional]
    if len(ports) <= 8 or len(needed) == len(ports):
        return ", ".join(map(_port, ports))
    return f"{', '.join(map(_port, needed))} and {len(ports) - len(needed)} optional"


def _port(port: Port) -> str:
    return port.name + ("*" if port.variadic else "?" if port.optional else "")


def _parameter(op: type[Op], param: Field[Any]) -> dict[str, Any]:
    default = param.default
    if default is MISSING and param.default_factory is not MISSING:
        default = param.default_factory()
    form = next((f for f in op.FIELDS if f.name == param.name), None)
    choices = form.enum if form and form.enum else type(default)
    known = choices if isinstance(choices, type) and issubclass(choices, Enum) else ()
    return {
        "name": param.name,
        "type": str(param.type),
        "default": None if default is MISSING else _plain(default),
        "required": default is MISSING,
        "choices": [_plain(choice) for choice in known],
    }


def _plain(value: Any) -> Any:
    """Return a parameter's value as JSON has it."""
    if isinstance(value, Enum):
        return getattr(value, "json", value.name)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _described(op: type[Op], served: ByType) -> dict[str, Any]:
    return {
        "name": op.NAME,
        "wire_code": op.WIRE_CODE,
        "json_type": op.TYPE_NAME,
        "inputs": [_port_row(p) for p in op.INPUTS],
        "outputs": [_port_row(p) for p in op.OUTPUTS],
        "parameters": [_parameter(op, f) for f in fields(op)],
        "dtypes": [t.json for t in served],
        "targets": _by_target(served),
    }


def _port_row(port: Port) -> dict[str, Any]:
    return {"name": port.name, "optional": port.optional, "variadic": port.variadic}


def _by_target(served: ByType) -> dict[str, Any]:
    from ..sweep.serving import TARGETS

    rows: dict[str, dict[str, Any]] = {target: {} for target in TARGETS}
    for data_type, targets in served.items():
        for target, found in targets.items():
            rows[target][data_type.json] = {
                "samples": found.samples,
                "served": found.served,
                "declined": found.declined,
            }
    return rows


def _tell(op: type[Op], served: ByType) -> None:
    facts(
        [
            ("op", op.NAME),
            ("wire code", op.WIRE_CODE),
            ("type in JSON", op.TYPE_NAME),
            ("inputs", ", ".join(map(_port, op.INPUTS)) or "-"),
            ("outputs", ", ".join(map(_port, op.OUTPUTS)) or "-"),
        ]
    )
    rows = [_parameter(op, f) for f in fields(op)]
    if rows:
        say()
        table(
            ["parameter", "type", "default"],
            [(r["name"], r["type"], "required" if r["required"] else r["default"]) for r in rows],
        )
    if not served:
        return
    targets = list(next(iter(served.values())))
    say()
    table(
        ["data type", *targets], [(t.json, *map(_cell, row.values())) for t, row in served.items()]
    )
    rules = sorted({rule for row in served.values() for f in row.values() for rule in f.declined})
    if rules:
        from ..sweep.serving import rule_texts

        texts = rule_texts()
        say()
        facts([(rule, texts[rule]) for rule in rules])


def _cell(found: Served) -> str:
    """Return how many samples are served, and which rules decline the others."""
    if not found.declined:
        return f"{found.served} served"
    counts = ", ".join(f"{len(names)} {rule}" for rule, names in found.declined.items())
    return f"{found.served} served, {counts}" if found.served else f"declined: {counts}"
