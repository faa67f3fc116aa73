"""YAML that tells where its mappings begin, and in which no key is given twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml import YAMLError

__all__ = ["Located", "YAMLError", "parse", "place"]


class Located(dict[str, Any]):
    """A mapping, with the line in which it begins."""

    line = 0


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """In Python, which tells better where a text is wrong."""


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """By libyaml, ten times as fast."""


def _mapping(loader: Any, node: Any) -> Iterator[Located]:
    data = Located()
    yield data
    seen: set[str] = set()
    for key, _ in node.value:
        if str(key.value) in seen:
            text = f"the key {key.value!r} is given twice"
            raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
        seen.add(str(key.value))
    data.update(loader.construct_mapping(node))
    data.line = node.start_mark.line + 1


for _one in (_Loader, _FastLoader):
    _one.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str | bytes) -> Any:
    """Return the data of a YAML text; raises `YAMLError`."""
    try:
        return yaml.load(text, _FastLoader)
    except YAMLError:
        return yaml.load(text, _Loader)


def place(error: YAMLError) -> tuple[str, str]:
    """Return where a text is wrong (may be empty), and what is wrong."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return where, getattr(error, "problem", None) or str(error)
