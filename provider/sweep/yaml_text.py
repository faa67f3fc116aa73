# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""YAML that tells where its mappings begin, and in which no key is given twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml import YAMLError

__all__ = ["Located", "YAMLError", "parse", "place"]


_MOST_BYTES = 1 << 20  # the longest suite of ours has 14,000
_MOST_SLOW_BYTES = 1 << 15
_MOST_NODES = 50_000
_MOST_LEVELS = 50


class Located(dict[str, Any]):
    """A mapping, with the line in which it begins."""

    line = 0


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """By libyaml, ten times as fast as in Python."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return the value of a node; what is not of its type is wrong there."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, TypeError, OverflowError, AttributeError) as error:
            text = f"a value that is no {node.tag.rpartition(':')[2]} ({error!s:.80})"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from None


def _mapping(loader: Any, node: Any) -> Iterator[Located]:
    data = Located()
    yield data
    seen: set[str] = set()
    for key, _ in node.value:
        if str(key.value) in seen:
            text = f"the key {key.value!s:.80} is given twice"
            raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
        seen.add(str(key.value))
    data.update(loader.construct_mapping(node))
    data.line = node.start_mark.line + 1


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str | bytes) -> Any:
    """Return the data of a YAML text; raises `YAMLError`, also for one that is too large."""
    if len(text) > _MOST_BYTES:
        raise YAMLError(f"{len(text)} bytes; at most {_MOST_BYTES} are read")
    try:
        _must_be_bearable(text, _Loader)
        return yaml.load(text, _Loader)
    except yaml.parser.ParserError:
        if len(text) <= _MOST_SLOW_BYTES:
            _must_be_bearable(text, yaml.SafeLoader)  # it tells better where a text is wrong
        raise


def _must_be_bearable(text: str | bytes, loader: Any) -> None:
    """Raise `YAMLError` for a text whose nodes are too many or too deep, each alias written out.

    libyaml ends the process where a text is nested 100,000 levels deep.
    """
    sizes: dict[str, int] = {}  # of what an anchor names
    open_: list[tuple[str | None, int]] = []  # anchors, and the nodes before what they name
    nodes = 0
    for event in yaml.parse(text, loader):
        before = nodes
        anchor: str | None = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            nodes += sizes.get(str(anchor), 0)
            if any(anchor == outer for outer, _ in open_):
                raise _refused(f"an alias that is inside of what it names ({anchor})", event)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((anchor, before))
            nodes += 1
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
        if anchor is not None and not isinstance(event, yaml.CollectionStartEvent):
            sizes[anchor] = nodes - before
        if len(open_) > _MOST_LEVELS or nodes > _MOST_NODES:
            text = f"{_MOST_NODES} nodes, aliases written out, and {_MOST_LEVELS} levels at most"
            raise _refused(text, event)


class _TooMuch(yaml.MarkedYAMLError):  # type: ignore[misc]
    """A text of which not all is looked at."""


def _refused(text: str, event: Any) -> _TooMuch:
    return _TooMuch(None, None, text, event.start_mark)


def place(error: YAMLError) -> tuple[str, str]:
    """Return where a text is wrong (may be empty), and what is wrong."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return where, getattr(error, "problem", None) or str(error)
