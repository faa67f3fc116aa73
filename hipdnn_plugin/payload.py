"""Compiled plans as bytes: an artifact (``provider.artifacts``) with one plan."""

from __future__ import annotations

from ..graph_api.errors import ArtifactError, DeviceError, NotSupportedError
from ..jit.cache import versions
from ..jit.target import Target
from ..provider.artifacts.artifact import Artifact
from ..provider.artifacts.save import packed
from ..provider.engines.iree.iree_plan import IreePlan

__all__ = ["load", "save"]

_RUNTIME = "iree-base-runtime"


def save(plan: IreePlan) -> bytes:
    """Return a plan as bytes."""
    return packed([plan])


def load(data: bytes, target: Target) -> IreePlan:
    """Return the plan that `save` wrote.

    Raises
    ------
    ArtifactError
        If the bytes are damaged or are something else.
    NotSupportedError
        If they are sound, but made for another device or with another version.
    """
    artifact = Artifact(data, "the serialized context")
    made_with, here = artifact.manifest.made_by.get(_RUNTIME, ""), versions().get(_RUNTIME, "")
    if made_with != here:
        raise NotSupportedError(f"the plan was made with IREE {made_with}; here is {here}")
    try:
        plan = artifact.plan(target)
    except DeviceError as error:
        raise NotSupportedError(str(error)) from error
    if not isinstance(plan, IreePlan):
        raise ArtifactError("the serialized context is for a graph with dynamic dims")
    return plan
