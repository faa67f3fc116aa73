"""Compiled plans as bytes: a container (`jit.container`) with the code, and what it takes."""

from __future__ import annotations

from typing import Any

from ..graph_api.errors import ArtifactError, NotSupportedError
from ..jit.container import Container, DamagedError, pack
from ..jit.signature import Signature
from ..jit.target import Target, cpu_features
from .overrides import Overrides
from .program import Program

__all__ = ["load", "save"]

FORMAT = "hipdnn-iree plan"
VERSION = 2
_CODE = "module.vmfb"


def save(program: Program) -> bytes:
    """Return a program as bytes."""
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "target": str(program.target),
        "cpu": cpu_features() if program.target.is_host else "",
        "iree": _runtime_version(),
        "driver": program.driver,
        "sha256": program.sha256,
        "signature": program.signature.as_dict(),
        "uids": list(program.uids),
        "names": list(program.names),
    }
    if program.overrides is not None:
        manifest["settings"] = program.overrides.settings
        manifest["graph"] = program.overrides.graph
    return pack(manifest, {_CODE: program.vmfb})


def load(data: bytes, target: Target) -> Program:
    """Return the program that `save` wrote.

    Raises
    ------
    ArtifactError
        If the bytes are damaged or are something else.
    NotSupportedError
        If they are sound, but made for another device or with another version.
    """
    try:
        container = Container(data)
        if container.body.get("format") != FORMAT:
            raise ArtifactError(f"not a plan of hipdnn-iree ({len(data)} bytes)")
        version = container.body.get("version")
        if version != VERSION:
            raise NotSupportedError(f"the plan has format {version}; this version reads {VERSION}")
        return _program(container.body, container.part(_CODE), target)
    except DamagedError as damage:
        raise ArtifactError(f"not a sound plan of hipdnn-iree: {damage}") from None
    except _NONSENSE as error:
        raise ArtifactError(f"the plan's manifest is not understood: {error!r}") from error


# What JSON that somebody else has written can lead to.
_NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _program(manifest: dict[str, Any], vmfb: bytes, target: Target) -> Program:
    made_for, here = manifest["target"], str(target)
    if not _runs_on(Target.parse(made_for), target):
        raise NotSupportedError(f"the plan is for {made_for}; the device is {here}")
    if manifest["cpu"] and manifest["cpu"] != cpu_features():
        raise NotSupportedError("the plan is for another kind of CPU; build it again here")
    if manifest["iree"] != _runtime_version():
        raise NotSupportedError(
            f"the plan was made with IREE {manifest['iree']}; here is {_runtime_version()}"
        )
    signature = Signature.from_dict(manifest["signature"])
    uids, names, driver = manifest["uids"], manifest["names"], manifest["driver"]
    if not len(uids) == len(names) == len(signature.args):
        raise ValueError(f"{len(uids)} uids, {len(names)} names, {len(signature.args)} arguments")
    if any(type(uid) is not int or not -(2**63) <= uid < 2**63 for uid in uids):
        raise ValueError(f"uids {uids}")
    if any(not isinstance(text, str) for text in (*names, manifest["sha256"])):
        raise TypeError("a name or the digest is no text")
    if driver not in target.drivers:
        raise ValueError(f"driver {driver!r} for {target}")
    again = None
    if "graph" in manifest:
        graph, chosen = manifest["graph"], manifest["settings"]
        if any(not isinstance(text, str) for text in (graph, *chosen, *chosen.values())):
            raise TypeError("the graph or a setting is no text")
        again = Overrides(chosen, graph=graph, target=target)
    return Program(
        overrides=again,
        vmfb=vmfb,
        sha256=manifest["sha256"],
        signature=signature,
        uids=tuple(uids),
        names=tuple(names),
        target=Target.parse(made_for),
        driver=driver,
    )


def _runs_on(made_for: Target, here: Target) -> bool:
    """Whether code made for one target runs on the other: same arch, no mode contradicted."""
    return (
        made_for.backend == here.backend
        and made_for.arch == here.arch
        and set(made_for.features) <= set(here.features)
    )


def _runtime_version() -> str:
    from importlib.metadata import version

    return version("iree-base-runtime")
