"""Artifacts in Python: `save_artifact` writes one, `load_artifact` reads one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...graph_api.errors import (
    ArtifactError,
    DeviceError,
    FormatError,
    GraphError,
    NotSupportedError,
)
from ...graph_api.files import write_file
from ...graph_api.frozen import FrozenGraph
from ...jit.cache import versions
from ...jit.knobs import scope
from ...jit.pipeline import Compiled, made_with, signature_of
from ...jit.sealed import seal, unseal
from ...jit.target import Target
from ..engine import Plan
from ..graph import Graph
from .container import Container, pack
from .manifest import MANIFEST, Manifest, PlanRecord

__all__ = ["Artifact", "load_artifact", "save_artifact"]

_LARGEST_MANIFEST = 16 << 20
_COMPILER, _RUNTIME = "iree-base-compiler", "iree-base-runtime"


class Artifact:
    """A graph with compiled plans, read from a file; made by `load_artifact`.

    Reading it needs no compiler, no NumPy and no device; executing a plan needs the runtime and
    a device of its target.  May be used by many threads at once.

    Attributes
    ----------
    label : str
        Path of the file, or what error texts call it.
    manifest : Manifest
        What the file says of itself.
    """

    def __init__(self, container: Container) -> None:
        self.label = container.label
        self._container = container
        self.manifest = self._manifest()

    @property
    def plans(self) -> tuple[PlanRecord, ...]:
        """What is known of each plan, in the order in which they were saved."""
        return self.manifest.plans

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that there is code for."""
        return tuple(dict.fromkeys(str(plan.target) for plan in self.plans))

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._container.size

    @cached_property
    def graph(self) -> Graph:
        """The graph, as it was saved.

        Raises
        ------
        ArtifactError
            If it is damaged, or written in a way that this version does not read.
        """
        name = self.manifest.graph_part
        try:
            return _read_graph(name, self._part(name))
        except FormatError as error:
            raise self._container.error(f"its graph cannot be read: {error}") from None

    @cached_property
    def frozen(self) -> FrozenGraph:
        """The graph, frozen.

        Raises
        ------
        ArtifactError
            If it is damaged, or another graph to this version than to the one that saved it.
        """
        try:
            found = self.graph.freeze()
        except GraphError as error:
            raise self._container.error(f"its graph is refused: {error}") from None
        if found.digest != self.manifest.graph_digest:
            raise ArtifactError(
                f"{self.label} was made by hipdnn-iree "
                f"{self.manifest.made_by.get('hipdnn-iree', '(unknown)')}, to which its graph was "
                f"another one (digest {self.manifest.graph_digest[:16]}; here "
                f"{found.digest[:16]}): make it again"
            )
        return found

    def plan(
        self,
        target: Target | str = "cpu",
        *,
        engine: str | None = None,
        knobs: Mapping[str, str] | None = None,
    ) -> Plan:
        """Return a plan, ready to execute; nothing is compiled.

        Parameters
        ----------
        target : Target or str
            What it shall run on.  Code for this very target comes first, then code that runs on
            it: for its architecture without more features, for a CPU whose instructions this one
            has.
        engine : str, optional
            Name or alias of the engine that built it.
        knobs : mapping of str to str, optional
            What it was built with.

        Returns
        -------
        Plan
            With ``cache`` ``"artifact"``.

        Raises
        ------
        NotSupportedError
            If there is no such plan in the artifact; the text lists those that are.
        DeviceError
            If the code is for a CPU with instructions that this one lacks.
        ArtifactError
            If the file is damaged, or its code is for another version of the runtime.
        """
        wanted = Target.parse(target)
        found = [r for r in self.plans if _runs_on(r.target, wanted) and _is(r, engine, knobs)]
        if not found:
            raise NotSupportedError(
                f"{self.label} has no plan for {wanted}"
                + (f" by engine {engine!r}" if engine else "")
                + (f" with knobs {dict(knobs)}" if knobs else "")
                + f"; it has: {'; '.join(map(_described, self.plans)) or 'none'}"
            )
        self._must_fit_runtime()
        refused: DeviceError | None = None
        for record in sorted(found, key=lambda r: _distance(r.target, wanted)):
            try:
                return self._plan(record)
            except DeviceError as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def verify(self) -> None:
        """Check every byte that counts, and that graph and plans belong together.

        Raises
        ------
        ArtifactError
            With the first thing that is wrong.
        """
        if set(self._container.names) != {MANIFEST, *self.manifest.parts}:
            raise self._container.error("it has other parts than its manifest says")
        for name in self.manifest.parts:
            self._part(name)
        for record in self.plans:
            self._must_match(record)

    def why_not_here(self, record: PlanRecord) -> str:
        """Return why a plan cannot run on this machine; empty when nothing speaks against it.

        A GPU is looked for only when the plan is executed.
        """
        from ...jit.runtime.cpu import missing_features

        try:
            self._must_fit_runtime()
        except ArtifactError as error:
            return str(error)
        if record.target.is_cpu:
            lacking = missing_features(self._part(record.part))
            return f"this CPU lacks {', '.join(lacking)}" if lacking else ""
        return ""

    def __repr__(self) -> str:
        return f"Artifact({self.label!r}: graph {self.manifest.graph_name!r}; {self.targets})"

    def _plan(self, record: PlanRecord) -> Plan:
        from ..engines.iree import IreeEngine

        code = self._part(record.part)
        if record.target.is_cpu:
            from ...jit.runtime.cpu import missing_features

            lacking = missing_features(code)
            if lacking:
                raise DeviceError(
                    f"{self.label}: the code for {record.target} needs {', '.join(lacking)}, which "
                    "this CPU lacks; make the artifact for a smaller CPU too, such as cpu:x86-64-v3"
                )
        compiled = Compiled(
            key=record.key,
            vmfb=code,
            sha256=record.sha256,
            signature=self._must_match(record),
            cache="artifact",
            statistics=dict(record.statistics),
            workspace_bytes=record.workspace_bytes,
        )
        driver = record.knobs.get("driver")
        with scope(**({"runtime_driver": driver} if driver else {})):
            return IreeEngine().plan(self.frozen, record.target, dict(record.knobs), compiled)

    def _manifest(self) -> Manifest:
        container = self._container
        if container.nbytes(MANIFEST) > _LARGEST_MANIFEST:
            raise container.error(f"its manifest has {container.nbytes(MANIFEST)} bytes")
        try:
            body = unseal(container.part(MANIFEST))
        except ValueError as error:
            raise container.error(f"its manifest {error}") from None
        return Manifest.from_dict(body, self.label)

    def _part(self, name: str) -> bytes:
        """Return a part whose digest is right."""
        if name not in self.manifest.parts:
            raise self._container.error(f"its manifest does not list its part {name}")
        size, digest = self.manifest.parts[name]
        data = self._container.part(name)
        if len(data) != size or sha256(data).hexdigest() != digest:
            raise self._container.error(f"its part {name} is damaged: the checksum is wrong")
        return data

    def _must_match(self, record: PlanRecord) -> Any:
        """Return the signature of the graph at hand, which the code was compiled for."""
        expected = signature_of(self.frozen, record.workspace_bytes or 0)
        if record.signature != expected:
            raise ArtifactError(
                f"{self.label}: the code for {record.target} takes other arguments than this "
                "version of hipdnn-iree gives for its graph: make the artifact again"
            )
        return expected

    def _must_fit_runtime(self) -> None:
        """Raise `ArtifactError` unless the runtime is of the compiler's release."""
        made = self.manifest.made_by.get(_COMPILER, "")
        here = versions().get(_RUNTIME, "")
        if here == self.manifest.made_by.get(_RUNTIME):
            return  # also where both are built from source, without numbers to compare
        if made.split(".")[:2] != here.split(".")[:2]:
            raise ArtifactError(
                f"{self.label} was compiled by IREE {made or '(unknown)'}; the runtime here is "
                f"{here}: make it again with that version, or install {_RUNTIME} {made}"
            )


def load_artifact(path: str | Path) -> Artifact:
    """Read an artifact; neither compiler nor device is needed.

    Only load files from people whose programs you would run: the code in it runs with your
    rights.  The checksums find damage, not forgery.

    Raises
    ------
    ArtifactError
        If it is no artifact, a damaged one, or one of a format that this version does not read.
    OSError
        If the file cannot be read.
    """
    return Artifact(Container(Path(path).read_bytes(), str(path)))


def save_artifact(path: str | Path, plans: Plan | Iterable[Plan]) -> Artifact:
    """Write plans of one graph into one file, and return what is in it.

    The same plans give the same bytes.  The file appears as a whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file, by convention with the suffix ``.hipdnn-iree``.
    plans : Plan or iterable of Plan
        Of the IREE engine: one graph built for one or more targets, or with several knobs.

    Raises
    ------
    NotSupportedError
        If a plan has no code that could be saved, or the plans are not of one graph.
    FormatError
        If the graph cannot be written.
    OSError
        If the file cannot be written.
    """
    data = packed([plans] if isinstance(plans, Plan) else list(plans))
    artifact = Artifact(Container(data, str(path)))
    artifact.verify()
    write_file(path, data)
    return artifact


def packed(plans: list[Plan]) -> bytes:
    """Return the bytes of an artifact; see `save_artifact`."""
    from ... import __version__

    if not plans:
        raise NotSupportedError("an artifact needs at least one plan")
    graph = plans[0].graph
    name, text = _write_graph(graph)
    parts, records = {name: text}, []
    for plan in plans:
        compiled = getattr(plan, "compiled", None)
        if not isinstance(compiled, Compiled):
            raise NotSupportedError(
                f"the plan of {plan.engine} for graph {graph.name!r} has no compiled code to save"
            )
        if plan.graph != graph or set(plan.graph.tensors) != set(graph.tensors):
            raise NotSupportedError(
                f"one artifact holds one graph: {plan.graph.name!r} is another than {graph.name!r}"
            )
        known = next((n for n, data in parts.items() if data == compiled.vmfb), None)
        part = known or f"code/{len(parts) - 1}.vmfb"
        parts[part] = compiled.vmfb
        records.append(
            PlanRecord(
                engine=plan.engine,
                knobs=plan.knobs,
                target=plan.target,
                part=part,
                sha256=compiled.sha256,
                nbytes=len(compiled.vmfb),
                key=compiled.key,
                signature=signature_of(graph, compiled.workspace_bytes or 0),
                workspace_bytes=compiled.workspace_bytes,
                statistics=compiled.statistics,
            )
        )
    manifest = Manifest(
        made_by={"hipdnn-iree": __version__, **made_with()},
        graph_name=graph.name,
        graph_digest=graph.digest,
        graph_part=name,
        plans=tuple(records),
        parts={n: (len(data), sha256(data).hexdigest()) for n, data in parts.items()},
    )
    return pack({MANIFEST: seal(manifest.as_dict()), **parts})


def _write_graph(graph: FrozenGraph) -> tuple[str, bytes]:
    """Return the graph as JSON, or as a FlatBuffer where JSON cannot hold it."""
    from ...graph_api.json_form import dumps
    from ...hipdnn_plugin.wire.encode import encode

    try:
        form = "graph.json", dumps(graph).encode("utf-8", "backslashreplace")
    except FormatError:  # an infinite scalar
        form = "graph.bin", encode(graph)
    again = _read_graph(*form).freeze()
    if again != graph or (again.inputs, again.outputs) != (graph.inputs, graph.outputs):
        raise FormatError(f"graph {graph.name!r} is another one when it is read back")
    return form


def _read_graph(name: str, data: bytes) -> Graph:
    """Read what `_write_graph` wrote; settings that reinterpret foreign graphs do not count."""
    if name.endswith(".json"):
        return Graph.from_json(data)
    from ...hipdnn_plugin.wire.decode import decode

    return decode(data, Graph).graph


def _runs_on(made_for: Target, here: Target) -> bool:
    """Whether code for one target may run on another: same arch, no mode contradicted."""
    if made_for.backend != here.backend:
        return False
    if made_for.is_cpu:  # what instructions it needs stands in the code
        return here.is_host or made_for == here
    return made_for.arch == here.arch and set(made_for.features) <= set(here.features)


def _distance(made_for: Target, wanted: Target) -> tuple[bool, bool, int]:
    """Return what orders code that may run: this very target first, then the more special."""
    return made_for != wanted, made_for.sku != wanted.sku, -len(made_for.features)


def _is(record: PlanRecord, engine: str | None, knobs: Mapping[str, str] | None) -> bool:
    if engine is not None:
        from ..manifest import engine as engine_named

        if record.engine != engine_named(engine).NAME:
            return False
    return knobs is None or dict(knobs) == dict(record.knobs)


def _described(record: PlanRecord) -> str:
    chosen = ", ".join(f"{name}={value}" for name, value in record.knobs.items())
    return f"{record.target}{f' with {chosen}' if chosen else ''} by {record.engine}"
