# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an artifact says of itself: ``manifest.json``, written and read.

::

    format, version     what the file is, and the form of this manifest
    made_by             versions of this package, the compiler, the runtime and torch-mlir
    graph               name, digest and part
    plans               of each one: engine and engine_id, knobs, target, bucket, part of the code,
                        key, signature, workspace_bytes, statistics
    parts               size and SHA-256 of every part

Plan identity is (engine id, knobs), as everywhere.  A plan with buckets stands there as one plan
for each bucket, with the sizes that its code is made for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...graph_api.arguments import shown
from ...graph_api.errors import ArtifactError
from ...jit.cache import CacheKey
from ...jit.signature import Signature
from ...jit.target import Target
from ..engine_ids import engine_id

__all__ = ["FORMAT", "VERSION", "Manifest", "PlanRecord"]

FORMAT = "hipdnn-iree artifact"
VERSION = 2


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """One plan of an artifact.

    Attributes
    ----------
    engine : str
        Name of the engine.
    knobs : mapping of str to str
        What it was built with; the engine's defaults for the others.
    target : Target
        What the code is for.
    part : str
        Where the code lies in the file.
    sha256 : str
        Hex digest of the code.
    nbytes : int
        Bytes of the code.
    key : CacheKey
        What the code was made from.
    signature : Signature
        Arguments in order.
    workspace_bytes : int or None
        Scratch memory of an execution; None when it depends on sizes given then.
    statistics : mapping
        Dispatches, fills, copies, transient bytes.
    bucket : mapping of str to int
        Sizes of dynamic dims that the code is made for; empty where it is not for a bucket.
    """

    engine: str
    knobs: Mapping[str, str]
    target: Target
    part: str
    sha256: str
    nbytes: int
    key: CacheKey
    signature: Signature
    workspace_bytes: int | None
    statistics: Mapping[str, Any]
    bucket: Mapping[str, int] = field(default_factory=dict)

    @property
    def engine_id(self) -> int:
        """hipDNN's id of the engine."""
        return engine_id(self.engine)

    def as_dict(self) -> dict[str, Any]:
        """Return the form in the manifest, without size and digest of the code."""
        ingredients = self.key.ingredients.items()
        return {
            "engine": self.engine,
            "engine_id": self.engine_id,
            "knobs": dict(self.knobs),
            "target": str(self.target),
            "bucket": dict(self.bucket),
            "code": self.part,
            "key": {
                "digest": self.key.digest,
                "ingredients": {k: list(v) if isinstance(v, tuple) else v for k, v in ingredients},
            },
            "signature": self.signature.as_dict(),
            "workspace_bytes": self.workspace_bytes,
            "statistics": dict(self.statistics),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], parts: Mapping[str, tuple[int, str]]) -> PlanRecord:
        """Read that form; any error of a damaged value when it is not it."""
        name, part, workspace = str(data["engine"]), str(data["code"]), data["workspace_bytes"]
        if data["engine_id"] != engine_id(name):
            raise ValueError(f"engine {name!r} does not have the id {data['engine_id']!r}")
        ingredients = {
            str(k): tuple(map(str, v)) if isinstance(v, list) else str(v)
            for k, v in data["key"]["ingredients"].items()
        }
        if workspace is not None and not (isinstance(workspace, int) and workspace >= 0):
            raise ValueError(f"workspace of {workspace!r} bytes")
        bucket = data["bucket"]
        if not all(isinstance(n, str) and type(size) is int for n, size in bucket.items()):
            raise ValueError(f"a bucket {bucket!r}")
        return cls(
            engine=name,
            knobs={str(k): str(v) for k, v in data["knobs"].items()},
            target=Target.parse(str(data["target"])),
            part=part,
            nbytes=parts[part][0],
            sha256=parts[part][1],
            key=CacheKey.restored(str(data["key"]["digest"]), ingredients),
            signature=Signature.from_dict(data["signature"]),
            workspace_bytes=workspace,
            statistics=dict(data["statistics"]),
            bucket=dict(bucket),
        )


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All that stands in ``manifest.json``.

    Attributes
    ----------
    made_by : mapping of str to str
        Versions by distribution.
    graph_name, graph_digest, graph_part : str
    plans : tuple of PlanRecord
    parts : mapping of str to (int, str)
        Size and SHA-256 of each part; none before it is written (`jit.container.pack` lists them).
    """

    made_by: Mapping[str, str]
    graph_name: str
    graph_digest: str
    graph_part: str
    plans: tuple[PlanRecord, ...]
    parts: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "made_by": dict(self.made_by),
            "graph": {
                "name": self.graph_name,
                "digest": self.graph_digest,
                "part": self.graph_part,
            },
            "plans": [plan.as_dict() for plan in self.plans],
            "parts": {
                name: {"size": size, "sha256": sha256}
                for name, (size, sha256) in self.parts.items()
            },
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], label: str) -> Manifest:
        """Read the JSON form.

        Raises
        ------
        ArtifactError
            If it is another format or version, or not what it should be.
        """
        if data.get("format") != FORMAT:
            raise ArtifactError(f"{label} is a {shown(data.get('format'))}, not a {FORMAT!r}")
        if data.get("version") != VERSION:
            raise ArtifactError(
                f"{label} has version {shown(data.get('version'))} of the format; this version of "
                f"hipdnn-iree reads {VERSION}: make the artifact again, or update"
            )
        try:
            parts = {
                str(name): (int(about["size"]), str(about["sha256"]))
                for name, about in data["parts"].items()
            }
            return cls(
                made_by={str(k): str(v) for k, v in data["made_by"].items()},
                graph_name=str(data["graph"]["name"]),
                graph_digest=str(data["graph"]["digest"]),
                graph_part=str(data["graph"]["part"]),
                plans=tuple(PlanRecord.from_dict(plan, parts) for plan in data["plans"]),
                parts=parts,
            )
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise ArtifactError(
                f"{label} has a manifest that is not understood: {shown(error)}"
            ) from None
