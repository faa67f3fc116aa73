# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled plans as bytes: an artifact (``provider.artifacts``) with one plan.

With code for override shapes there are two artifacts, as parts of one container: each is of one
graph, and that code is for the graph with dynamic dims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph_api.errors import ArtifactError, DeviceError, NotSupportedError
from ..jit.cache import versions
from ..jit.container import Container, DamagedError, pack
from ..jit.target import Target
from ..provider.artifacts.artifact import Artifact
from ..provider.artifacts.save import packed
from ..provider.engines.iree.iree_dynamic_plan import DynamicIreePlan
from ..provider.engines.iree.iree_plan import IreePlan
from ..provider.plan import Plan

if TYPE_CHECKING:
    from ..provider.overrides import OverridePlans

__all__ = ["load", "save"]

_RUNTIME = "iree-base-runtime"
_LABEL = "the serialized context"
_PAIR, _FIXED, _SIZED = "override shapes", "plan", "sizes"


def save(plan: IreePlan, overrides: OverridePlans | None = None) -> bytes:
    """Return a plan as bytes."""
    if overrides is None or overrides.sized is None:
        return packed([plan])
    return pack({"kind": _PAIR}, {_FIXED: packed([plan]), _SIZED: packed([overrides.sized])})


def load(data: bytes, target: Target) -> tuple[IreePlan, OverridePlans | None]:
    """Return the plan that `save` wrote, and what serves other shapes where its graph wants it.

    Raises
    ------
    ArtifactError
        If the bytes are damaged or are something else.
    NotSupportedError
        If they are sound, but made for another device or with another version.
    """
    parts = _parts(data)
    plan = _plan(parts[_FIXED], target)
    if not isinstance(plan, IreePlan):
        raise ArtifactError(f"{_LABEL} is for a graph with dynamic dims")
    if not plan.graph.is_override_shape_enabled:
        return plan, None
    sized = _plan(parts[_SIZED], target) if _SIZED in parts else None
    if sized is not None and not isinstance(sized, DynamicIreePlan):
        raise ArtifactError(f"{_LABEL} has code with fixed dims for override shapes")
    from ..provider.overrides import OverridePlans

    return plan, OverridePlans.of(plan, sized, compiles=False)


def _parts(data: bytes) -> dict[str, bytes]:
    """Return the artifacts by name."""
    try:
        found = Container(data)
        if found.body.get("kind") != _PAIR:
            return {_FIXED: data}
        return {name: found.part(name) for name in (_FIXED, _SIZED)}
    except DamagedError as damage:
        raise ArtifactError(f"{_LABEL} is damaged: {damage}") from None


def _plan(data: bytes, target: Target) -> Plan:
    artifact = Artifact(data, _LABEL)
    made_with, here = artifact.manifest.made_by.get(_RUNTIME, ""), versions().get(_RUNTIME, "")
    if made_with != here:
        raise NotSupportedError(f"the plan was made with IREE {made_with}; here is {here}")
    try:
        return artifact.plan(target)
    except DeviceError as error:
        raise NotSupportedError(str(error)) from error
