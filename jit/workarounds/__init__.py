# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Known defects of the compiler, one module each: what they do, where, and what avoids them.

The modules are found by their names, ``w<number>_<target>_<words>.py``; the target is ``any``,
``cpu``, ``gpu``, ``cuda``, ``gfx9`` or an architecture, so that those of other targets are not
imported.  A compiler without a defect is told by
``scripts/check_workarounds``; then its module goes, and the line in a lowering that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..target import Target
    from .rule import Workaround

__all__ = ["for_plan", "strikes", "workaround", "workarounds"]


@cache
def _modules() -> dict[str, str]:
    """Return the module of each defect by id, in the order of their numbers."""
    here = Path(__file__).parent
    files = sorted((path.stem, path.parent.name) for path in here.glob("*/w[0-9][0-9][0-9]_*.py"))
    return {f"W-{name[1:4]}": f".{folder}.{name}" for name, folder in files}


@cache
def workaround(identity: str) -> Workaround:
    """Return a workaround by its id."""
    found: Workaround = import_module(_modules()[identity], __name__).WORKAROUND
    return found


def workarounds() -> Iterator[Workaround]:
    """Yield all of them, in the order of their numbers."""
    yield from map(workaround, _modules())


@cache
def _of(target: Target) -> dict[str, str]:
    """Return the modules of the defects that concern a target, by their names alone."""
    words = {"any", "cpu" if target.is_cpu else "gpu", target.arch}
    words |= {"gfx9"} if target.is_gfx9 else {target.backend}
    return {one: at for one, at in _modules().items() if at.split("_")[1] in words}


@cache
def for_plan(target: Target) -> tuple[Workaround, ...]:
    """Return those that concern a target and are decided in the code plan."""
    return tuple(workaround(one) for one, at in _of(target).items() if ".planned." in at)


def strikes(identity: str, target: Target, *facts: Any, **more: Any) -> bool:
    """Return whether a defect concerns a target and some data, such as shapes."""
    if identity not in _of(target):
        return False
    rule = workaround(identity)
    if not rule.concerns(target):  # the name may say gfx9 of a rule for some of them
        return False
    return rule.applies is None or rule.applies(*facts, **more)
