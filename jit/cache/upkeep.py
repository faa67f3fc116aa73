# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeping a cache folder small and sound: eviction by last use, and verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .entry import DamagedEntryError
from .layout import Layout

__all__ = ["Finding", "Removed", "trim", "verify"]


@dataclass(frozen=True, slots=True)
class Removed:
    """What a trim did: entries and bytes removed, leftovers of dead processes, bytes left."""

    entries: int
    nbytes: int
    leftovers: int
    nbytes_left: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with an entry; ``file`` is the part, or empty.

    ``removed``: it is gone from its place.  What is no file of ours was renamed there.  Where a
    folder is wrong, ``digest`` is its name.
    """

    digest: str
    file: str
    problem: str
    removed: bool

    def __str__(self) -> str:
        what = f"{self.file} {self.problem}" if self.file else self.problem
        return f"{self.digest}: {what}{' (removed)' if self.removed else ''}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def trim(layout: Layout, cap: int | None, scratch_age_s: float, keep: str = "") -> Removed:
    """Remove the least recently used entries until at most ``cap`` bytes are left.

    Parameters
    ----------
    layout : Layout
        Where to look.
    cap : int or None
        Bytes that may stay; None removes no entry, a negative number removes all.
    scratch_age_s : float
        Age from which unfinished work of dead processes is removed.
    keep : str
        Digest of an entry that stays in any case.
    """
    stored = sorted(layout.entries(), key=lambda entry: entry.used)
    total = sum(entry.nbytes for entry in stored)
    entries = nbytes = 0
    if cap is not None:
        for entry in stored:
            if total <= cap:
                break
            if entry.digest == keep:
                continue
            now = layout.look(entry.path)
            if now is not None and now.used != entry.used and cap >= 0:
                continue  # used, or replaced, since we looked
            if layout.remove(entry.path, entry.inode):
                entries += 1
                nbytes += entry.nbytes
            elif layout.look(entry.path) is not None:
                continue  # not ours to remove, so it still counts
            total -= entry.nbytes
    return Removed(entries, nbytes, layout.sweep(scratch_age_s), total)


def verify(layout: Layout, repair: bool) -> list[Finding]:
    """Read and hash every entry; return what is wrong, and remove it if ``repair``."""
    findings = []
    for misfit in layout.misfits():
        path = Path(misfit.filename)
        removed = repair and layout.set_aside(path)
        findings.append(Finding(path.name, "", str(misfit.strerror), removed))
    for path in layout.paths():
        try:
            layout.read(path)
        except FileNotFoundError:
            continue
        except DamagedEntryError as damage:
            removed = repair and layout.remove(path, damage.inode or layout.inode_of(path))
            findings.append(Finding(path.name, damage.file, damage.problem, removed))
        except OSError as exc:
            findings.append(Finding(path.name, "", f"cannot be read ({exc.strerror})", False))
    return findings
