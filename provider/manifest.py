"""The table of engines: one line each, imported when asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ..graph_api.errors import SettingError
from .engine import Engine

__all__ = ["ENGINES", "engine", "engine_names"]

# alias -> (name, module, class); in the order in which a default is looked for.
ENGINES: dict[str, tuple[str, str, str]] = {
    "iree": ("IREE_JIT_ENGINE", "engines.iree", "IreeEngine"),
    "reference": ("REFERENCE_ENGINE", "engines.reference", "ReferenceEngine"),
}


def engine_names() -> list[str]:
    """Return the full names."""
    return [name for name, _, _ in ENGINES.values()]


@cache
def engine(name: str) -> Engine:
    """Return the engine of this name or alias.

    Raises
    ------
    SettingError
        If there is none; the text lists those that are.
    """
    for alias, (full, module, cls) in ENGINES.items():
        if name in (alias, full):
            found: Engine = getattr(import_module(f".{module}", __package__), cls)()
            return found
    known = ", ".join(f"{alias} ({full})" for alias, (full, _, _) in ENGINES.items())
    raise SettingError(f"unknown engine {name!r}; known: {known}")
