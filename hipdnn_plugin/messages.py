# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the plugin reads from hipDNN and tells it: graphs, knobs, engine details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ..graph_api.errors import FormatError, Problem, SettingError
from ..graph_api.formats.flatbuffer.decode import is_binary, lengths
from ..graph_api.formats.flatbuffer.engine_messages import (
    EngineDetails,
    Knob,
    Range,
    decode_config,
    encode_details,
)
from ..graph_api.frozen import FrozenGraph
from ..graph_api.ops import OPS
from ..jit.ops import info
from ..jit.settings_table import ENGINE_KNOBS, Settings, with_values
from ..jit.strategies import AUTO, Choice, merged
from ..provider.graph_files import loads
from .abi import BehaviorNote

__all__ = [
    "KNOBS",
    "NOTES",
    "RULES",
    "SETTINGS",
    "WORKSPACE_LIMIT",
    "Config",
    "details",
    "graph",
    "read_config",
]

RULES: dict[str, str] = {
    "HOST-01": "a host asks about graphs of at most 8 MiB, 3000 nodes and 12000 tensors, for "
    "which every answer takes less than two seconds",
}
# Decoded, frozen and judged at once: 1.4 s of CPU time at 2.4 GHz (Zen 3) for 12,000 tensors.
_MOST = {"bytes": 8 << 20, "nodes": 3000, "tensors": 12_000}

NOTES = (
    BehaviorNote.RUNTIME_COMPILATION,
    BehaviorNote.EXTERNAL_LIBRARY_DEPENDENCY,
    BehaviorNote.SUPPORTS_EXECUTION_PLAN_SERIALIZATION,
)

WORKSPACE_LIMIT = "global.workspace_size_limit"
_NO_LIMIT = 2**63 - 1
_PREFIX = "hipdnn_iree."


def _choice(id: str, description: str, default: str, *values: str) -> Knob:
    found = Range(values=values, max_length=max(map(len, values)))
    return Knob(id=id, description=description, default=default, range=found)


KNOBS = {
    knob.id: knob
    for knob in (
        Knob(
            id=WORKSPACE_LIMIT,
            description="Most bytes of workspace; a plan that needs more is refused",
            default=_NO_LIMIT,
            range=Range(low=0, high=_NO_LIMIT),
        ),
        Knob(
            id="global.deterministic",
            description="Equal inputs give equal bits; holds in any case",
            default=1,
            range=Range(low=0, high=1),
        ),
        *(
            _choice(_PREFIX + knob.name, knob.help.removesuffix("."), knob.default, *knob.choices)
            for knob in ENGINE_KNOBS.values()
        ),
    )
}
"""Every knob that hipDNN's users can choose, by its id; those of all graphs."""


@cache
def strategy_knob(op: str) -> Knob | None:
    """Return the knob of graphs with an op, if it has one; a graph's details say which values fit.

    Asking for those of all ops would import all their modules (13 ms).
    """
    known = info(op).strategies if op in OPS else None
    if known is None:
        return None
    return _choice(
        f"{_PREFIX}{op}.strategy",
        f"How the nodes of {op} are expressed in IR",
        *(AUTO, AUTO, *(strategy.name for strategy in known.table)),
    )


def _of_strategies(ids: Iterable[str]) -> dict[str, Knob]:
    """Return the knobs of strategies among ids."""
    words = [(id, id.removeprefix(_PREFIX).removesuffix(".strategy")) for id in ids]
    found = {id: strategy_knob(op) for id, op in words if id == f"{_PREFIX}{op}.strategy"}
    return {id: knob for id, knob in found.items() if knob is not None}


SETTINGS = {_PREFIX + knob.name: knob.field for knob in ENGINE_KNOBS.values()}
"""Knob -> the field of `Settings` that it overrides for one plan."""


@dataclass(frozen=True, slots=True)
class Config:
    """An engine configuration.

    Attributes
    ----------
    engine_id : int
    settings : Settings
        Those of the process, with the knobs that the configuration sets.
    knobs : mapping
        The same knobs, by their names of the IREE engine.
    workspace_limit : int
        Bytes.
    """

    engine_id: int
    settings: Settings
    knobs: Mapping[str, str] = field(default_factory=dict)
    workspace_limit: int = _NO_LIMIT


def graph(data: bytes) -> FrozenGraph:
    """Return the operation graph that hipDNN hands over, checked and with all types inferred.

    Raises
    ------
    FormatError
        If the buffer is damaged (`wire_rules.is_damage`), is too large (HOST-01), or holds what
        is not served.
    GraphError
        If the graph breaks rules.
    """
    if not is_binary(data):  # the other kinds of graph files never come from hipDNN
        raise FormatError(f"the operation graph is no FlatBuffer ({len(data)} bytes)")
    counts = {"bytes": len(data)}
    if len(data) <= _MOST["bytes"]:
        counts |= lengths(data)
    found = [_too_large(what, n) for what, n in counts.items() if n > _MOST[what]]
    if found:
        raise FormatError("the operation graph is too large", found)
    return loads(data, source="operation graph").freeze()


def _too_large(what: str, count: int) -> Problem:
    wanted = f"at most {_MOST[what]}"
    hint = "hipdnn_iree.Graph.from_json(...).build() has no such limit"
    return Problem(rule="HOST-01", port=what, got=f"{count} {what}", wanted=wanted, hint=hint)


def read_config(data: bytes, settings: Settings) -> Config:
    """Read an engine configuration; unknown knobs are ignored.

    Raises
    ------
    FormatError
        If the buffer is damaged or not understood.
    SettingError
        With all knobs whose value is not allowed.
    """
    given = decode_config(data)
    by_op = _of_strategies(given.knobs)
    offered = {**KNOBS, **by_op}
    known = {name: value for name, value in given.knobs.items() if name in offered}
    bad = [text for name, value in known.items() if (text := _wrong(offered[name], value))]
    if bad:
        raise SettingError("\n".join(bad))
    chosen = {SETTINGS[name]: str(value) for name, value in known.items() if name in SETTINGS}
    asked = {name.split(".")[1]: str(known[name]) for name in known if name in by_op}
    if asked:
        chosen["compiler_strategies"] = " ".join(merged(settings.compiler_strategies, asked))
    knobs = {
        engine_knob: str(known[_PREFIX + knob.name])
        for engine_knob, knob in ENGINE_KNOBS.items()
        if _PREFIX + knob.name in known
    }
    knobs |= {f"{op}.strategy": strategy for op, strategy in asked.items()}
    return Config(
        given.engine_id,
        with_values(settings, **chosen),
        knobs,
        int(known.get(WORKSPACE_LIMIT, _NO_LIMIT)),
    )


def _wrong(knob: Knob, value: object) -> str:
    """Return what is wrong with the value of a knob, or nothing."""
    limits = knob.range
    assert limits is not None
    if isinstance(knob.default, int):
        if isinstance(value, int) and limits.low <= value <= limits.high:
            return ""
        return f"knob {knob.id} is {value!r}; allowed: {limits.low} to {limits.high}"
    if value in limits.values:
        return ""
    return f"knob {knob.id} is {value!r}; allowed: {', '.join(limits.values)}"


def details(
    engine_id: int, now: Mapping[str, Any], strategies: Mapping[str, Choice] | None = None
) -> bytes:
    """Return an ``EngineDetails`` buffer.

    Parameters
    ----------
    engine_id : int
    now : mapping
        The settings that hold now, by field: the defaults of the knobs that override them.
    strategies : mapping, optional
        Those of a graph's ops, by name.
    """
    knobs = [
        replace(knob, default=now[SETTINGS[name]]) if name in SETTINGS else knob
        for name, knob in KNOBS.items()
    ]
    for op, choice in (strategies or {}).items():
        offered = strategy_knob(op)
        assert offered is not None
        values = tuple(dict.fromkeys((AUTO, *choice.names)))
        limits = Range(values=values, max_length=max(map(len, values)))
        knobs.append(replace(offered, default=choice.default, range=limits))
    about = EngineDetails(
        engine_id=engine_id, knobs=tuple(knobs), behavior_notes=tuple(map(int, NOTES))
    )
    return encode_details(about)
