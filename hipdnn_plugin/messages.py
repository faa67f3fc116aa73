"""What the plugin reads from hipDNN and tells it, as FlatBuffers: graphs, knobs, engine details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..graph_api.errors import FormatError, SettingError
from ..graph_api.frozen import FrozenGraph
from ..provider.graph import loads
from .abi import BehaviorNote
from .wire.decode import is_binary
from .wire.reader import Reader
from .wire.schema import Record
from .wire.tables import ENGINE_CONFIG, ENGINE_DETAILS
from .wire.writer import write

__all__ = ["KNOBS", "NOTES", "WORKSPACE_LIMIT", "Config", "Knob", "details", "graph", "read_config"]

NOTES = (
    BehaviorNote.RUNTIME_COMPILATION,
    BehaviorNote.EXTERNAL_LIBRARY_DEPENDENCY,
    BehaviorNote.SUPPORTS_EXECUTION_PLAN_SERIALIZATION,
)

_KNOB: Any = ENGINE_DETAILS.slots[1].type
_INT, _STRING = 1, 3  # codes of the unions KnobValue and KnobConstraint


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting of a plan that hipDNN's users can choose.

    Attributes
    ----------
    id : str
        hipDNN's name of it.
    help : str
        One line on what it does.
    default : int or str
        What holds without it; decides the type.
    allowed : tuple
        Smallest and largest value of an integer; every value of a text.
    setting : str
        Field of `jit.knobs.Settings` that it overrides; empty for those handled here.
    """

    id: str
    help: str
    default: int | str
    allowed: tuple[Any, ...]
    setting: str = ""

    def record(self, default: int | str) -> Record:
        """Return the knob as hipDNN reads it."""
        table = _KNOB
        values, constraints = (slot.members for slot in table.slots[2:4])
        if isinstance(self.default, int):
            low, high = self.allowed
            code = _INT
            limits = {"min_value": low, "max_value": high, "step": 1}
        else:
            code = _STRING
            limits = {"max_length": max(map(len, self.allowed)), "valid_values": self.allowed}
        return Record(
            table,
            knob_id=self.id,
            description=self.help,
            default_value_type=code,
            default_value=Record(values[code], value=default),
            constraint_type=code,
            constraint=Record(constraints[code], **limits),
        )


WORKSPACE_LIMIT = "global.workspace_size_limit"
_NO_LIMIT = 2**63 - 1

KNOBS = {
    knob.id: knob
    for knob in (
        Knob(
            WORKSPACE_LIMIT,
            "Most bytes of workspace; a plan that needs more is refused",
            _NO_LIMIT,
            (0, _NO_LIMIT),
        ),
        Knob(
            "global.deterministic",
            "Equal inputs give equal bits; holds in any case",
            1,
            (0, 1),
        ),
        Knob(
            "hipdnn_iree.compiler.opt_level",
            "Optimisation level of the compiler",
            "O3",
            ("O0", "O1", "O2", "O3"),
            "compiler_opt_level",
        ),
        Knob(
            "hipdnn_iree.runtime.driver",
            "How CPU code runs: in the calling thread, or on worker threads",
            "auto",
            ("auto", "local-sync", "local-task"),
            "runtime_driver",
        ),
    )
}
"""Every knob by its id."""


@dataclass(frozen=True, slots=True)
class Config:
    """An engine configuration.

    Attributes
    ----------
    engine_id : int
    settings : mapping
        Overrides for `jit.knobs.scope`.
    workspace_limit : int
        Bytes.
    """

    engine_id: int
    settings: Mapping[str, str] = field(default_factory=dict)
    workspace_limit: int = _NO_LIMIT


def graph(data: bytes) -> FrozenGraph:
    """Return the operation graph that hipDNN hands over, checked and with all types inferred.

    Raises
    ------
    FormatError
        If the buffer is damaged (`wire.rules.is_damage`), or holds what is not served.
    GraphError
        If the graph breaks rules.
    """
    if not is_binary(data):  # the other kinds of graph files never come from hipDNN
        raise FormatError(f"the operation graph is no FlatBuffer ({len(data)} bytes)")
    return loads(data, source="operation graph").freeze()


def read_config(data: bytes) -> Config:
    """Read an engine configuration; knobs that are not known here are left to their engine.

    Raises
    ------
    FormatError
        If the buffer is damaged.
    SettingError
        If a knob has a value that is not allowed; with all such knobs.
    """
    reader = Reader(data, strict=False)
    record = reader.root(ENGINE_CONFIG)
    settings: dict[str, str] = {}
    limit: int = _NO_LIMIT
    bad = []
    for given in record["knobs"] or ():
        knob = KNOBS.get(given["knob_id"] or "")
        if knob is None:
            continue
        value = given["value"]["value"] if isinstance(given["value"], dict) else None
        if not _allowed(knob, value):
            words = " to " if isinstance(knob.default, int) else ", "
            bad.append(
                f"knob {knob.id} is {value!r}; allowed: {words.join(map(str, knob.allowed))}"
            )
        elif knob.id == WORKSPACE_LIMIT:
            limit = int(value)  # type: ignore[call-overload]
        elif knob.setting:
            settings[knob.setting] = str(value)
    if bad:
        raise SettingError("\n".join(bad))
    return Config(record["engine_id"], settings, limit)


def _allowed(knob: Knob, value: object) -> bool:
    if isinstance(knob.default, int):
        low, high = knob.allowed
        return isinstance(value, int) and low <= value <= high
    return value in knob.allowed


def details(engine_id: int, defaults: Mapping[str, Any]) -> bytes:
    """Return an ``EngineDetails`` buffer.

    Parameters
    ----------
    engine_id : int
    defaults : mapping
        Values that hold now by the field of the settings, for the knobs that stand for one.
    """
    records = [knob.record(defaults.get(knob.setting, knob.default)) for knob in KNOBS.values()]
    return write(
        Record(
            ENGINE_DETAILS,
            engine_id=engine_id,
            knobs=tuple(records),
            behavior_notes=tuple(int(note) for note in NOTES),
        )
    )
