# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Methods and enums of another frontend, as rows that say what they are called here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NoReturn, TypeVar

from ..graph_api.arguments import nearest
from ..graph_api.errors import NotSupportedError
from ..graph_api.graph import Graph
from .tensors import TensorAttributes

__all__ = ["Alias", "Names", "alias", "missing"]

E = TypeVar("E", bound=Enum)
Adapter = Callable[[Graph, dict[str, Any]], dict[str, Any]]

UNUSED, IGNORED = "", "~"
"""What stands for our name of a parameter: it must be left at its default; it has no effect."""


@dataclass(frozen=True, kw_only=True)
class Alias:
    """A method of another frontend.

    Attributes
    ----------
    ours : str
        The method of `Graph`.
    params : mapping of str to str
        Their parameters in their order -> ours, `UNUSED` or `IGNORED`.
    required : int
        How many of them have no default.
    positional : int
        How many may be given by position.
    results : tuple of str
        Fields of what our method returns, where that is a tuple; one is returned by itself.
    as_list : bool
        Whether one result of several is in a sequence all the same.
    adapt : callable, optional
        Makes our arguments of theirs, where names are not all that differs.
    """

    ours: str
    params: Mapping[str, str]
    required: int
    positional: int
    results: tuple[str, ...] = ()
    as_list: bool = False
    adapt: Adapter | None = None

    def bind(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by our names; None means the default, as it does there.

        Raises
        ------
        TypeError
            For an argument that the method does not take, that is given twice or missing.
        NotSupportedError
            For a parameter that has no counterpart, if it is not at its default.
        """
        names = list(self.params)
        if len(args) > self.positional:
            wanted = f"{self.positional} positional arguments"
            raise TypeError(f"{method}() takes {wanted}, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.params:
                hint = nearest(name, names) or f"it takes {', '.join(names)}"
                raise TypeError(f"{method}() has no parameter {name!r}; {hint}")
            if name in given:
                raise TypeError(f"{method}() got {name!r} twice")
            given[name] = value
        if lacking := [name for name in names[: self.required] if name not in given]:
            raise TypeError(f"{method}() needs {', '.join(lacking)}")
        found = {}
        for name, value in given.items():
            ours = self.params[name]
            if value is None or ours == IGNORED:
                continue
            if ours == UNUSED:
                if value:
                    raise NotSupportedError(
                        f"{method}({name}=...) has no counterpart here; leave it out"
                    )
                continue
            found[ours] = value
        return found

    def call(
        self, graph: Graph, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Add the nodes to our graph, and return their results as the other frontend does."""
        given = self.bind(method, args, kwargs)
        given = {name: _ours(value, graph) for name, value in given.items()}
        if self.adapt is not None:
            given = self.adapt(graph, given)
        found = getattr(graph, self.ours)(**given)
        if not self.results:
            return TensorAttributes(found)
        tensors = [getattr(found, field) for field in self.results]
        wrapped = [None if t is None else TensorAttributes(t) for t in tensors]
        return wrapped if self.as_list or len(wrapped) > 1 else wrapped[0]

    def method(self, name: str) -> Callable[..., Any]:
        """Return the method, for the class that has the others."""

        def add(owner: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call(owner.inner, name, args, kwargs)

        add.__name__, add.__doc__ = name, f"Call `Graph.{self.ours}`; docs/migration.md says how."
        setattr(add, "__signature__", self.signature())  # noqa: B010  # functions declare none
        return add

    def signature(self) -> inspect.Signature:
        """Return their signature."""
        kinds = inspect.Parameter
        found = [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
        for number, name in enumerate(self.params):
            kind = kinds.POSITIONAL_OR_KEYWORD if number < self.positional else kinds.KEYWORD_ONLY
            default = kinds.empty if number < self.required else None
            found.append(kinds(name, kind, default=default))
        return inspect.Signature(found)


def alias(
    ours: str,
    params: str,
    *,
    results: str = "",
    as_list: bool = False,
    adapt: Adapter | None = None,
) -> Alias:
    """Return the alias for a row.

    Parameters
    ----------
    ours : str
        The method of `Graph`.
    params : str
        ``"required; optional; by keyword only"``, each a list of ``theirs=ours``, or ``name``
        where both are the same.  ``theirs=`` has no counterpart, ``theirs=~`` no effect.
    results : str
        Fields of our result.
    """
    groups = [group.split() for group in params.split(";")]
    groups += [[] for _ in range(3 - len(groups))]
    pairs = [word.partition("=") for group in groups for word in group]
    return Alias(
        ours=ours,
        params={theirs: own if sign else theirs for theirs, sign, own in pairs},
        required=len(groups[0]),
        positional=len(groups[0]) + len(groups[1]),
        results=tuple(results.split()),
        as_list=as_list,
        adapt=adapt,
    )


class Names(Generic[E]):
    """An enum of another frontend: its spellings, whose values are members of ours.

    Parameters
    ----------
    name : str
        What it is called there.
    enum : type
        Ours.
    renamed : mapping of str to str
        Their spelling -> ours, where they differ.
    instead : mapping of str to str
        Members that have no counterpart -> what to use.
    """

    def __init__(
        self,
        name: str,
        enum: type[E],
        renamed: Mapping[str, str] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._instead = name, dict(instead or {})
        hidden = set((renamed or {}).values())
        self._members = {m.name: m for m in enum if m.name not in hidden}
        self._members |= {theirs: enum[ours] for theirs, ours in (renamed or {}).items()}

    def __getattr__(self, name: str) -> E:
        if name.startswith("_") or name not in self._members:
            missing(self._name, name, self._members, self._instead)
        return self._members[name]

    def __iter__(self) -> Iterator[E]:
        return iter(self._members.values())

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __repr__(self) -> str:
        return f"<{self._name}: {', '.join(self._members)}>"


def missing(owner: str, name: str, known: Iterable[str], instead: Mapping[str, str]) -> NoReturn:
    """Raise AttributeError for a name that there is not, with what to use instead."""
    hint = f"use {instead[name]}" if name in instead else nearest(name, known)
    raise AttributeError(f"{owner} has no {name!r} here; {hint}".rstrip("; "))


def _ours(value: Any, graph: Graph) -> Any:
    if isinstance(value, TensorAttributes):
        return value.bind(graph)
    if isinstance(value, list | tuple):
        return [_ours(item, graph) for item in value]
    return value
