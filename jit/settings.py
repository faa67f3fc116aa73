# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings that hold here and now; no other module reads the environment.

A value comes from, in this order, the innermost `scope`, the environment variable, the default.
An empty variable counts as unset.  The settings themselves are listed in `settings_table`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..graph_api.errors import SettingError
from .settings_kinds import home_path, spell
from .settings_table import HIPDNN_PREFIX, KNOBS, PREFIX, Knob, Settings

__all__ = [
    "HIPDNN_PREFIX",
    "KNOBS",
    "PREFIX",
    "Knob",
    "Settings",
    "describe",
    "foreign",
    "scope",
    "settings",
    "unknown_variables",
]


def _cache_home(_: Mapping[str, Any]) -> Path:
    # A relative XDG_CACHE_HOME is to be ignored, says the specification.
    # Where there is no home either, a relative folder would be another one in each program.
    # An empty HOME is none: it would be the root of the file system.
    home = "" if os.environ.get("HOME") == "" else home_path("~/.cache")
    for base in (os.environ.get("XDG_CACHE_HOME", ""), home):
        if os.path.isabs(base):
            return Path(base, "hipdnn-iree")
    from tempfile import gettempdir

    return Path(gettempdir(), f"hipdnn-iree-{os.getuid()}")


_FALLBACKS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "cache_dir": _cache_home,
    "reproducers_dir": lambda found: found["cache_dir"] / "reproducers",
    "engine_winners": lambda found: found["cache_dir"] / "winners.json",
}

_BY_FIELD = {knob.field: knob for knob in KNOBS}
# The last two decide the default cache folder.
_VARIABLES = (*(knob.env for knob in KNOBS), "XDG_CACHE_HOME", "HOME")
_ENCODED = tuple(map(os.fsencode, _VARIABLES))

_Overrides = tuple[tuple[str, str], ...]
_OVERRIDES: ContextVar[_Overrides] = ContextVar("hipdnn_iree_settings", default=())


def settings() -> Settings:
    """Return the settings that hold here and now.

    The environment is read at each call, which takes a microsecond unless a variable has changed.

    Raises
    ------
    SettingError
        If a variable has a value that is not allowed; the text lists all such variables.
    """
    return _build(_values(), _OVERRIDES.get())


def _values() -> tuple[bytes | None, ...]:
    """Return what the variables hold, as bytes.

    ``os.environ.get`` raises and catches an exception for each variable that is not set, and
    nearly none is: 20 times the time of a look into the dictionary that CPython keeps behind it.
    """
    inner = getattr(os.environ, "_data", None)
    if isinstance(inner, dict) and os.supports_bytes_environ:
        return tuple(map(inner.get, _ENCODED))
    found = map(os.environ.get, _VARIABLES)
    return tuple(None if text is None else os.fsencode(text) for text in found)


@contextmanager
def scope(**overrides: Any) -> Iterator[Settings]:
    """Override settings inside a ``with`` block, for this thread or task only.

    Values are of the setting's type or in the spelling of its variable; None restores the
    default.  Scopes nest, the inner one wins.

    Raises
    ------
    SettingError
        If a name is unknown or a value is not allowed.
    """
    for name in overrides:
        if name not in _BY_FIELD:
            from difflib import get_close_matches

            near = get_close_matches(name, _BY_FIELD, 3) or sorted(_BY_FIELD)
            raise SettingError(f"unknown setting {name!r}; did you mean {' or '.join(near)}?")
    merged = {**dict(_OVERRIDES.get()), **{k: spell(v) for k, v in overrides.items()}}
    token = _OVERRIDES.set(tuple(sorted(merged.items())))
    try:
        yield settings()
    finally:
        _OVERRIDES.reset(token)


def describe() -> list[dict[str, Any]]:
    """Return one JSON-ready row per knob: what it is, its value here, and where that is from."""
    now, overrides = settings(), dict(_OVERRIDES.get())
    rows = []
    for knob in KNOBS:
        origin = "environment" if os.environ.get(knob.env) else "default"
        row = {f.name: getattr(knob, f.name) for f in fields(Knob) if f.name != "parse"}
        row["value"] = spell(getattr(now, knob.field))
        row["origin"] = "scope" if knob.field in overrides else origin
        rows.append(row)
    return rows


# Names that variables had, without the prefix.
_RENAMED = {"FORMS": "STRATEGIES"}


def unknown_variables() -> dict[str, str]:
    """Return variables that look like ours but are not, each with the closest knob or ``""``."""
    from difflib import get_close_matches

    # Without the prefix, which would make everything look alike.
    known = {knob.env.removeprefix(PREFIX): knob.env for knob in KNOBS}
    names = [v.removeprefix(PREFIX) for v in sorted(os.environ) if v.startswith(PREFIX)]
    near = {
        name: [_RENAMED[name]] if name in _RENAMED else get_close_matches(name, known, 1)
        for name in names
        if name not in known
    }
    return {PREFIX + name: "".join(known[k] for k in found) for name, found in near.items()}


def foreign(*names: str) -> dict[str, str]:
    """Return variables that belong to others, for reports only; ``""`` for those not set."""
    return {name: os.environ.get(name, "") for name in names}


@lru_cache(maxsize=64)
def _build(raw: tuple[bytes | None, ...], overrides: _Overrides) -> Settings:
    given = dict(overrides)
    found: dict[str, Any] = {}
    bad: list[str] = []
    for knob, from_env in zip(KNOBS, raw, strict=False):
        text = given.get(knob.field, os.fsdecode(from_env or b"")).strip()
        try:
            value = knob.parse(text or knob.default)
        except (ValueError, OSError):  # OSError: a relative path and no working directory
            who = knob.env if knob.field not in given else f"setting {knob.field}"
            bad.append(f"{who} is {text!r}; allowed: {knob.allowed}")
            value = knob.parse(knob.default)
        if value is None and knob.field in _FALLBACKS:
            value = _FALLBACKS[knob.field](found)
        found[knob.field] = value
    if bad:
        raise SettingError("\n".join(bad))
    return Settings(**found)
