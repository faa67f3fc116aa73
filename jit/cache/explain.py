# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why a key was not found: the nearest stored entry, and what it differs in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .key import CacheKey, Difference, explain_difference
from .store import CacheStore

__all__ = ["GRAPH", "Miss", "explain_miss"]

GRAPH = "graph"  # label of the ingredient that holds the digest of the canonical graph
TARGET = "target"


@dataclass(frozen=True, slots=True)
class Miss:
    """Explanation of a miss.

    Attributes
    ----------
    digest : str
        Digest that was looked for.
    reason : str
        ``"off"``, ``"empty"``, ``"new graph"``, ``"other target"``, ``"differs"``, or ``"found"``
        if it is there by now.
    nearest : str
        Digest of the stored entry with the same graph and target and the fewest differences, or
        ``""``.
    differences : tuple of Difference
        From the stored entry to the wanted key.
    detail : str
        Why the cache is off, how many entries were looked at, or for which targets there is code.
    """

    digest: str
    reason: str
    nearest: str = ""
    differences: tuple[Difference, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        short = self.digest[:16]
        if self.reason == "differs":
            lines = [f"no entry {short}; the nearest one, {self.nearest[:16]}, differs in:"]
            return "\n  ".join([*lines, *map(str, self.differences)])
        return f"{_TEXTS[self.reason].format(short)}{f' ({self.detail})' if self.detail else ''}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "digest": self.digest,
            "reason": self.reason,
            "nearest": self.nearest,
            "differences": [difference.as_dict() for difference in self.differences],
            "detail": self.detail,
            "text": str(self),
        }


_TEXTS = {
    "off": "no entry {}: the cache is not used",
    "empty": "no entry {}: the cache is empty",
    "new graph": "no entry {}: nothing was compiled for this graph yet",
    "other target": "no entry {}: nothing was compiled of this graph for this target yet",
    "found": "entry {} is there",
}


def explain_miss(store: CacheStore, key: CacheKey) -> Miss:
    """Return why ``store`` has no entry for ``key``.

    All manifests are looked at (8,000: a fifth of a second), so call it on demand only.
    """
    graph = key.ingredients.get(GRAPH)
    entries, looked_at = store.mentioning(graph if isinstance(graph, str) else key.digest)
    if store.off and not looked_at:
        return Miss(key.digest, "off", detail=store.off)
    if not looked_at:
        return Miss(key.digest, "empty")
    if any(entry.digest == key.digest for entry in entries):
        return Miss(key.digest, "found")
    same = [entry for entry in entries if graph and entry.ingredients.get(GRAPH) == graph]
    if not same:
        return Miss(key.digest, "new graph", detail=f"{looked_at} entries looked at")
    target = key.ingredients.get(TARGET)
    alike = [entry for entry in same if entry.ingredients.get(TARGET) == target]
    if not alike:  # code for another target differs in all that follows from it
        others = ", ".join(sorted({str(entry.ingredients.get(TARGET)) for entry in same}))
        return Miss(key.digest, "other target", detail=f"for {others} only")
    # Entries come most recently used first, and min keeps the first of equals.
    nearest, differences = min(
        ((entry, explain_difference(entry.ingredients, key)) for entry in alike),
        key=lambda pair: len(pair[1]),
    )
    return Miss(key.digest, "differs", nearest.digest, differences)
