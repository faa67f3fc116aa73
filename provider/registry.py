"""The engines that are here: a table of our own, and those that are discovered.

An engine of our own is one line of `ENGINES`; its module is imported when it is asked for.
Where others can be found at run time (hipDNN's plugins) is one line of `DISCOVERERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType

from ..graph_api.errors import SettingError
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

# (module, function): the function returns the engines found, a tuple of `Engine`, with names and
# aliases of their own.  It is called at every look-up and must answer at once: it remembers what
# it found, and returns the same objects as long as nothing has changed.
DISCOVERERS: tuple[tuple[str, str], ...] = (
    ("engines.foreign.discovery", "engines"),
    ("engines.foreign.backend_engine", "engines"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
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


def engines() -> Mapping[str, Entry]:
    """Return every engine by alias, in the order in which a default is looked for.

    An engine that was discovered does not replace one that has its name or alias already.
    """
    if not DISCOVERERS:
        return own_engines()
    return _table(tuple(map(_discovered, DISCOVERERS)))


def engine(name: str) -> Engine:
    """Return the engine of this name, alias or id (decimal, or hexadecimal as hipDNN shows it).

    Raises
    ------
    SettingError
        If there is none; the text lists those that are.
    """
    # The others are not looked for before one of them is wanted.
    table = own_engines()
    entry = _named(table, name)
    if entry is None:
        table = engines()
        entry = _named(table, name)
    if entry is None and (number := as_id(name)) is not None:
        found = (e.load() for e in table.values())
        if (by_id := next((e for e in found if e.id == number), None)) is not None:
            return by_id
    if entry is None:
        known = ", ".join(f"{alias} ({entry.name})" for alias, entry in table.items())
        raise SettingError(f"unknown engine {name!r}; known: {known}")
    return entry.load()


def _named(table: Mapping[str, Entry], name: str) -> Entry | None:
    return table.get(name) or next((e for e in table.values() if e.name == name), None)


@cache
def own_engines() -> Mapping[str, Entry]:
    """Return the engines of `ENGINES` by alias; nothing is looked for."""
    return MappingProxyType(
        {
            alias: Entry(name=name, load=_Import(module, cls), by_default=by_default)
            for alias, (name, module, cls, by_default) in ENGINES.items()
        }
    )


class _Import:
    """Makes an engine of the table, once."""

    def __init__(self, module: str, cls: str) -> None:
        self._where = module, cls
        self._made: Engine | None = None

    def __call__(self) -> Engine:
        if self._made is None:
            module, cls = self._where
            self._made = getattr(import_module(f".{module}", __package__), cls)()
        return self._made


def _discovered(where: tuple[str, str]) -> tuple[Engine, ...]:
    module, function = where
    found: tuple[Engine, ...] = getattr(import_module(f".{module}", __package__), function)()
    return found


@lru_cache(maxsize=4)
def _table(found: tuple[tuple[Engine, ...], ...]) -> Mapping[str, Entry]:
    table = dict(own_engines())
    for one in (e for group in found for e in group):
        if one.ALIAS not in table and one.NAME not in {e.name for e in table.values()}:
            load = _Constant(one)
            table[one.ALIAS] = Entry(name=one.NAME, load=load, by_default=one.BY_DEFAULT)
    # The reference is for checking: it stays the last.
    table["reference"] = table.pop("reference")
    return MappingProxyType(table)


class _Constant:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self) -> Engine:
        return self._engine
