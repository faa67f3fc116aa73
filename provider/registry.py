# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The engines that are here: a table of our own, and those that are discovered.

An engine of our own is one line of `ENGINES`; its module is imported when it is asked for.  An
engine is made for one set of settings; asked again with equal ones, the same object comes back.
Where others can be found at run time (hipDNN's plugins) is one line of `DISCOVERERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from types import MappingProxyType

from ..graph_api.arguments import nearest
from ..graph_api.errors import SettingError
from ..jit.bindings import load
from ..jit.settings_table import Settings
from .engine import Engine
from .engine_ids import as_id

__all__ = ["DISCOVERERS", "ENGINES", "Entry", "engine", "engines", "own_engines"]

# alias -> (name, module, class, its BY_DEFAULT); in the order in which a default is looked for.
# The last stands here too so that a default is chosen without importing the others.
ENGINES: dict[str, tuple[str, str, str, bool]] = {
    "iree": ("IREE_JIT_ENGINE", "engines.iree.iree_engine", "IreeEngine", True),
    "torch": ("TORCH_CPU_ENGINE", "engines.torch.torch_engine", "TorchEngine", False),
    "split": ("SPLIT_ENGINE", "engines.split.split_engine", "SplitEngine", False),
    "reference": ("REFERENCE_ENGINE", "engines.reference_engine", "ReferenceEngine", False),
}

# (module, function): the function returns the engines that it finds for some settings, a tuple of
# `Engine` with names and aliases of their own.  It is called at every look-up and must answer at
# once: it remembers what it found, and returns the same objects as long as nothing has changed.
DISCOVERERS: tuple[tuple[str, str], ...] = (
    ("engines.foreign.discovery", "engines"),
    ("engines.foreign.backend_engine", "engines"),
)


_KEPT = 8  # sets of settings whose engines are kept: those of a program rarely change


@dataclass(frozen=True, slots=True)
class Entry:
    """One engine of the table, not imported yet.

    Attributes
    ----------
    name : str
        Full name, which hipDNN's id is made of.
    load : callable
        Returns the engine, always the same one.
    by_default : bool
        Its `Engine.BY_DEFAULT`.
    """

    name: str
    load: Callable[[], Engine]
    by_default: bool


def engines(settings: Settings) -> Mapping[str, Entry]:
    """Return every engine by alias, in the order in which a default is looked for.

    An engine that was discovered does not replace one that has its name or alias already.
    """
    own = own_engines(settings)
    if not DISCOVERERS:
        return own
    found = tuple(_discovered(*where, settings) for where in DISCOVERERS)
    return _table(tuple(own.items()), found)


def engine(name: str, settings: Settings) -> Engine:
    """Return the engine of this name, alias or id (decimal, or hexadecimal as hipDNN shows it).

    Raises
    ------
    SettingError
        If there is none; the text lists those that are.
    """
    # The others are not looked for before one of them is wanted.
    table = own_engines(settings)
    entry = _named(table, name)
    if entry is None:
        table = engines(settings)
        entry = _named(table, name)
    if entry is None and (number := as_id(name)) is not None:
        found = (e.load() for e in table.values())
        if (by_id := next((e for e in found if e.id == number), None)) is not None:
            return by_id
    if entry is None:
        known = ", ".join(f"{alias} ({entry.name})" for alias, entry in table.items())
        names = (word for alias, entry in table.items() for word in (alias, entry.name))
        hint = nearest(name, names)
        raise SettingError(f"unknown engine {name!r}; {hint and f'{hint} '}known: {known}")
    return entry.load()


def _named(table: Mapping[str, Entry], name: str) -> Entry | None:
    return table.get(name) or next((e for e in table.values() if e.name == name), None)


@lru_cache(maxsize=_KEPT)
def own_engines(settings: Settings) -> Mapping[str, Entry]:
    """Return the engines of `ENGINES` by alias; nothing is looked for."""
    return MappingProxyType(
        {
            alias: Entry(name, cache(partial(_imported, module, cls, settings)), by_default)
            for alias, (name, module, cls, by_default) in ENGINES.items()
        }
    )


def _imported(module: str, cls: str, settings: Settings) -> Engine:
    made: Engine = getattr(load(f"{__package__}.{module}"), cls)(settings)
    return made


def _discovered(module: str, function: str, settings: Settings) -> tuple[Engine, ...]:
    find = getattr(import_module(f".{module}", __package__), function)
    found: tuple[Engine, ...] = find(settings)
    return found


@lru_cache(maxsize=_KEPT)
def _table(
    own: tuple[tuple[str, Entry], ...], found: tuple[tuple[Engine, ...], ...]
) -> Mapping[str, Entry]:
    # By the engines themselves, not by their settings: it must not outlive them.
    table = dict(own)
    for one in (e for group in found for e in group):
        if one.ALIAS not in table and one.NAME not in {e.name for e in table.values()}:
            table[one.ALIAS] = Entry(one.NAME, partial(_same, one), one.BY_DEFAULT)
    # The reference is for checking: it stays the last.
    table["reference"] = table.pop("reference")
    return MappingProxyType(table)


def _same(engine: Engine) -> Engine:
    return engine
