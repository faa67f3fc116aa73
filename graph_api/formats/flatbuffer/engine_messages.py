# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The records between hipDNN and engines: details, knobs, and the chosen configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...errors import FormatError
from .buffer_reader import Reader
from .buffer_writer import write
from .hipdnn_tables import ENGINE_CONFIG, ENGINE_DETAILS
from .schema_types import Era, Record, Table
from .wire_rules import problem, refuse

__all__ = [
    "EngineConfig",
    "EngineDetails",
    "Knob",
    "Range",
    "decode_config",
    "decode_details",
    "encode_config",
    "encode_details",
]

Value = int | float | str
_CODES: dict[type, int] = {int: 1, float: 2, str: 3}
_KNOB = ENGINE_DETAILS.slots[1].table
_SETTING = ENGINE_CONFIG.slots[1].table


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """What values a knob takes.

    Attributes
    ----------
    low, high : int or float
        Smallest and largest number; not for texts.
    step : int
        Between integers.
    values : tuple
        The only values, of integers and texts; empty for any in the range.
    max_length : int
        Of a text; 0 for any.
    """

    low: int | float = 0
    high: int | float = 0
    step: int = 1
    values: tuple[Any, ...] = ()
    max_length: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Knob:
    """A setting of an engine, as it is offered.

    Attributes
    ----------
    id : str
        ``global.…`` for those of all engines, else ``<plugin>.<op>.<name>``.
    description : str
    default : int, float or str
        Its Python type is the type of the knob.
    range : Range, optional
        None for "anything of the type".
    deprecated : bool
    """

    id: str
    description: str = ""
    default: Value
    range: Range | None = None
    deprecated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineDetails:
    """An engine's description for a graph; notes are codes, as newer ones may occur."""

    engine_id: int
    knobs: tuple[Knob, ...] = ()
    behavior_notes: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineConfig:
    """The engine that was chosen, and the knobs that were set; the others have their defaults."""

    engine_id: int
    knobs: dict[str, Value] = field(default_factory=dict)
    ranking_metric: str = ""


# ---------------------------------------------------------------------------- details


def decode_details(data: bytes) -> EngineDetails:
    """Read an engine's description; fields of newer hipDNN are ignored.

    Raises
    ------
    FormatError
        If the buffer is damaged (WIRE-01 to WIRE-06).
    """
    record = Reader(data, strict=False).root(ENGINE_DETAILS)
    return EngineDetails(
        engine_id=record["engine_id"],
        knobs=tuple(_knob(item, f"knobs[{i}]") for i, item in enumerate(record["knobs"] or ())),
        behavior_notes=record["behavior_notes"] or (),
        name=record["name"] or "",
    )


def encode_details(details: EngineDetails) -> bytes:
    """Write an engine's description; readers of November 2025 see the engine id only.

    Raises
    ------
    FormatError
        If a number does not fit its field (WIRE-14).
    """
    record = Record(
        ENGINE_DETAILS,
        engine_id=details.engine_id,
        knobs=_filled(_knob_record(knob) for knob in details.knobs),
        behavior_notes=details.behavior_notes or None,
        name=details.name or None,
    )
    return write(record)


def _knob(item: Record, where: str) -> Knob:
    if item["knob_id"] is None:
        raise refuse("WIRE-06", where, "knob_id", "nothing", "the knob's name")
    code, constraint = item["constraint_type"], item["constraint"]
    found = None
    if constraint is not None:
        strings = code == _CODES[str]
        found = Range(
            low=0 if strings else constraint["min_value"],
            high=0 if strings else constraint["max_value"],
            step=constraint.get("step", 1),
            values=constraint.get("valid_values") or (),
            max_length=constraint.get("max_length", 0),
        )
    return Knob(
        id=item["knob_id"],
        description=item["description"] or "",
        default=_read_value(item, "default_value", where),
        range=found,
        deprecated=item["deprecated"],
    )


def _read_value(item: Record, name: str, where: str) -> Value:
    code, held = item[f"{name}_type"], item[name]
    if held is None:
        got = f"kind {code}" if code else "nothing"
        if code:
            found = problem("WIRE-08", where, name, got, "an integer, a number or a text")
            raise FormatError("the buffer holds a kind of value that is not known", [found])
        raise refuse("WIRE-06", where, name, got, "an integer, a number or a text")
    value: Value = held["value"] if held["value"] is not None else ""
    return value


def _knob_record(knob: Knob) -> Record:
    constraints: dict[str, Any] = {"constraint_type": 0, "constraint": None}
    code = _CODES[type(knob.default)]
    if knob.range is not None:
        table = _member(_KNOB, "constraint", code)
        values = {
            "min_value": knob.range.low,
            "max_value": knob.range.high,
            "step": knob.range.step,
            "valid_values": knob.range.values or None,
            "max_length": knob.range.max_length,
        }
        known = {slot.name for slot in table.slots}
        held = Record(table, **{name: v for name, v in values.items() if name in known})
        constraints = {"constraint_type": code, "constraint": held}
    return Record(
        _KNOB,
        knob_id=knob.id,
        description=knob.description or None,
        **_value_fields(_KNOB, "default_value", knob.default),
        **constraints,
        deprecated=knob.deprecated,
    )


# ---------------------------------------------------------------------------- configuration


def decode_config(data: bytes) -> EngineConfig:
    """Read which engine was chosen, and with which knobs.

    Raises
    ------
    FormatError
        If the buffer is damaged, or holds a setting that cannot be understood (WIRE-07, WIRE-08).
    """
    reader = Reader(data)
    record = reader.root(ENGINE_CONFIG)
    if reader.problems:
        raise FormatError("the engine configuration is not understood", reader.problems)
    knobs: dict[str, Value] = {}
    for i, item in enumerate(record["knobs"] or ()):
        if item["knob_id"] is None:
            raise refuse("WIRE-06", f"knobs[{i}]", "knob_id", "nothing", "the knob's name")
        knobs[item["knob_id"]] = _read_value(item, "value", f"knobs[{i}]")
    return EngineConfig(
        engine_id=record["engine_id"],
        knobs=knobs,
        ranking_metric=record["ranking_metric"] or "",
    )


def encode_config(config: EngineConfig) -> bytes:
    """Write which engine is to be used, and with which knobs.

    Raises
    ------
    FormatError
        If a number does not fit its field (WIRE-14).
    """
    settings = (
        Record(_SETTING, knob_id=name, **_value_fields(_SETTING, "value", value))
        for name, value in config.knobs.items()
    )
    record = Record(
        ENGINE_CONFIG,
        engine_id=config.engine_id,
        knobs=_filled(settings),
        ranking_metric=config.ranking_metric or None,
    )
    return write(record, era=Era.NODE)


# ---------------------------------------------------------------------------- shared


def _member(table: Table, name: str, code: int) -> Table:
    slot = next(slot for slot in table.slots if slot.name == name)
    member = slot.members[code]
    assert isinstance(member, Table)
    return member


def _value_fields(table: Table, name: str, value: Value) -> dict[str, Any]:
    code = _CODES[type(value)]
    return {f"{name}_type": code, name: Record(_member(table, name, code), value=value)}


def _filled(records: Iterable[Record]) -> tuple[Record, ...] | None:
    return tuple(records) or None
