# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the knobs that a plugin's engine details name to knobs of an engine, and back.

An engine's knobs are texts with a list of choices; hipDNN's are integers, numbers and texts in a
range.  Every value in the range is taken; the list has the interesting ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from ....graph_api.arguments import suggestion
from ....graph_api.errors import SettingError
from ....graph_api.formats.flatbuffer.engine_messages import Knob, Range
from ...engine import EngineKnob

__all__ = ["as_engine_knobs", "values"]

_FEW = 16  # an integer range of so many values is written out


def as_engine_knobs(knobs: Sequence[Knob]) -> tuple[EngineKnob, ...]:
    """Return the knobs that are not deprecated, in the form of all engines.

    Only those that name their values are worth trying one by one; ``global.`` knobs change what
    is promised rather than how fast it is, so autotuning leaves them alone.
    """
    found = []
    for knob in knobs:
        if knob.deprecated:
            continue
        default = str(knob.default)
        choices = tuple(dict.fromkeys([default, *map(str, _choices(knob))]))
        named = bool(knob.range and knob.range.values) and not knob.id.startswith("global.")
        tried = choices if named else (default,)
        found.append(
            EngineKnob(
                name=knob.id,
                choices=choices,
                default=default,
                help=" ".join(knob.description.split()) or "a knob of the plugin",
                tried=tried,
                open=not _listed(knob),
            )
        )
    return tuple(found)


def _listed(knob: Knob) -> bool:
    """Whether the choices are all that there are."""
    limits = knob.range
    if limits is None or isinstance(knob.default, float):
        return False
    if limits.values:
        return True
    few = (int(limits.high) - int(limits.low)) // max(limits.step, 1) < _FEW
    return isinstance(knob.default, int) and few


def _choices(knob: Knob) -> Sequence[int | float | str]:
    limits = knob.range
    if limits is None:
        return ()
    if limits.values:
        return limits.values
    if isinstance(knob.default, str):
        return ()
    if isinstance(knob.default, float):
        return (limits.low, limits.high)
    low, high, step = int(limits.low), int(limits.high), max(limits.step, 1)
    if 0 <= (high - low) // step < _FEW:
        return range(low, high + 1, step)
    return (low, high)


def values(
    engine: str, knobs: Sequence[Knob], given: Mapping[str, str]
) -> dict[str, int | float | str]:
    """Return settings in the types of the plugin's knobs.

    Raises
    ------
    SettingError
        Naming each knob that the engine does not have, or that does not take its value.
    """
    known = {knob.id: knob for knob in knobs}
    found: dict[str, int | float | str] = {}
    wrong = []
    for name, text in given.items():
        knob = known.get(name)
        if knob is None:
            have = ", ".join(known) or "none for this graph"
            near = suggestion(name, known)
            wrong.append(f"engine {engine} has no knob {name!r}{near}; it has: {have}")
            continue
        value = _parse(knob, str(text))
        if value is None:
            allowed = _allowed(knob)
            wrong.append(f"knob {name!r} of engine {engine} is {text!r}; allowed: {allowed}")
            continue
        found[name] = value
    if wrong:
        raise SettingError("\n  ".join(wrong))
    return found


def _parse(knob: Knob, text: str) -> int | float | str | None:
    """Return a value that the knob takes, or None."""
    limits = knob.range or Range()
    if isinstance(knob.default, str):
        long = limits.max_length and len(text.encode()) > limits.max_length
        return None if long or (limits.values and text not in limits.values) else text
    try:
        value = int(text, 0) if isinstance(knob.default, int) else float(text)
    except ValueError:
        return None
    if knob.range is None:
        return value if isfinite(value) else None
    if limits.values:
        return value if value in limits.values else None
    if not limits.low <= value <= limits.high:
        return None
    off = isinstance(value, int) and (value - int(limits.low)) % max(limits.step, 1)
    return None if off else value


def _allowed(knob: Knob) -> str:
    limits = knob.range
    kind = {int: "an integer", float: "a number", str: "a text"}[type(knob.default)]
    if limits is None:
        return kind
    if limits.values:
        return " | ".join(map(str, limits.values))
    if isinstance(knob.default, str):
        return f"{kind} of at most {limits.max_length} bytes" if limits.max_length else kind
    step = f" in steps of {limits.step}" if limits.step > 1 else ""
    return f"{kind} from {limits.low} to {limits.high}{step}"
