# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The keys of graph JSON, and unknown ones that seem to be meant for one of them.

hipDNN's readers skip what they do not know, and so does ours.  But where a key is left out and an
unknown one is spelled almost like it, or stands in another object of the node, a file made by hand
would silently mean something else: that is reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any, NamedTuple

__all__ = ["GRAPH", "NODE", "OTHER_ERAS", "TENSOR", "Key", "Places", "Stray", "meant", "strays"]

GRAPH = frozenset(
    (
        *("name", "io_data_type", "intermediate_data_type", "compute_data_type"),
        *("tensors", "nodes", "dynamic_dims"),
        *("is_override_shape_enabled", "preferred_engine_id"),
    )
)
TENSOR = frozenset(
    (
        *("uid", "name", "data_type", "dims", "strides", "virtual", "alignment"),
        *("value_type", "value", "is_runtime_pass_by_value"),
        *("ragged_offset_tensor_uid", "ragged_offset_multiplier", "dynamic_dims"),
    )
)
NODE = frozenset(("type", "name", "compute_data_type"))
"""Of every node; those of its op are in its ``FIELDS``."""

OTHER_ERAS = frozenset(
    ("io_type", "intermediate_type", "compute_type", "id", "min_required_engine_api_version")
)
"""What the graph has in some versions of hipDNN."""

_SECTIONS = ("inputs", "outputs", "parameters", "attributes")
_UID = re.compile(r"_?(tensor)?(_uids?)?$")
_ALIKE = 0.75  # padding is like pre_padding, and not like post_padding
_ELSEWHERE = {
    **{"shape": "dims", "size": "dims", "dtype": "data_type", "type": "data_type"},
    **{"op": "type", "op_type": "type", "kind": "type", "mode": "operation"},
    **{"kernel_size": "window", "perm": "permutation"},
}
"""What other formats call them."""


class Key(NamedTuple):
    """A key, and the object inside the node that has it (``""`` is the node itself)."""

    section: str
    name: str

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"in {self.section}" if self.section else "beside type"

    def __str__(self) -> str:
        return f"{self.name} in {self.section}" if self.section else self.name


class Stray(NamedTuple):
    """An unknown key with its value."""

    key: Key
    value: Any

    def told(self, missing: Key) -> str:
        """Return what is said of it where it seems to be meant for a key that is missing."""
        if self.key.name == missing.name:
            return f"it belongs {missing.place}, not {self.key.place}"
        return f"{self.key.name!r} is not read; did you mean {missing.name!r}?"


Places = Mapping[str, frozenset[str]]
"""Section -> the keys that are known there."""


def strays(item: Mapping[str, Any], places: Places) -> list[Stray]:
    """Return the unknown keys of a graph, tensor or node that have a value and are no remarks."""
    objects: list[tuple[str, Any]] = [("", item)]
    if len(places) > 1 or not item.keys().isdisjoint(_SECTIONS):
        objects += [(section, item.get(section)) for section in _SECTIONS]
    found = []
    for section, given in objects:
        known = places.get(section, frozenset())
        if isinstance(given, Mapping) and not given.keys() <= known:
            found += [
                Stray(Key(section, name), value)
                for name, value in given.items()
                if name not in known
                and value is not None
                and not name.startswith("_")
                and not (section == "" and name in _SECTIONS)
            ]
    return found


def meant(missing: Key, found: list[Stray]) -> Stray | None:
    """Return the unknown key that seems to be meant for one that is missing."""
    return next((stray for stray in found if _alike(stray.key, missing)), None)


def _alike(stray: Key, key: Key) -> bool:
    if stray.name == key.name or _ELSEWHERE.get(stray.name.lower()) == key.name:
        return True
    one, other = (_UID.sub("", name.lower()) for name in (stray.name, key.name))
    return SequenceMatcher(None, one, other).ratio() >= _ALIKE
