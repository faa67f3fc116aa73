# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts that are read: their graph, and plans of the code in them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ...graph_api.buckets import Buckets, as_buckets, combinations, in_words
from ...graph_api.dynamic import at_sizes
from ...graph_api.errors import (
    ArtifactError,
    DeviceError,
    FormatError,
    GraphError,
    NotSupportedError,
)
from ...graph_api.frozen import FrozenGraph
from ...jit.cache import versions
from ...jit.container import Container, DamagedError
from ...jit.pipeline import Compiled, signature_of
from ...jit.settings import settings
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..graph import Graph
from ..plan import Plan
from ..registry import engine as engine_named
from .artifact_manifest import Manifest, PlanRecord

__all__ = ["Artifact", "load_artifact", "read_graph"]

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

    def __init__(self, data: bytes, label: str) -> None:
        self.label = label
        try:
            self._container = Container(data)
        except DamagedError as damage:
            raise self._unsound(damage) from None
        self.manifest = Manifest.from_dict(self._container.body, label)

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
            return read_graph(name, self._part(name))
        except FormatError as error:
            raise self._unsound(f"its graph cannot be read: {error}") from None

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
            raise self._unsound(f"its graph is refused: {error}") from None
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
        wanted, now = Target.parse(target), settings()
        found = [r for r in self.plans if _runs_on(r.target, wanted) and _is(r, engine, knobs, now)]
        if not found:
            raise NotSupportedError(
                f"{self.label} has no plan for {wanted}"
                + (f" by engine {engine!r}" if engine else "")
                + (f" with knobs {dict(knobs)}" if knobs else "")
                + f"; it has: {'; '.join(map(_described, self.plans)) or 'none'}"
            )
        self._must_fit_runtime()
        plans: dict[object, list[PlanRecord]] = {}
        for record in sorted(found, key=lambda r: _distance(r.target, wanted)):
            plans.setdefault(_identity(record), []).append(record)
        refused: DeviceError | None = None
        for records in plans.values():
            try:
                return self._plan(records, now)
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
        for name in self.manifest.parts:
            self._part(name)
        plans: dict[object, list[PlanRecord]] = {}
        for record in self.plans:
            self._must_match(record)
            plans.setdefault(_identity(record), []).append(record)
        for records in plans.values():
            if records[0].bucket:
                self._buckets(records)

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

    def _plan(self, records: list[PlanRecord], settings: Settings) -> Plan:
        """Return the plan for one code, or for the codes of all buckets."""
        codes = [self._code(record) for record in records]
        first = records[0]
        if not first.bucket:
            return self._of_code(first, codes[0], settings)
        from .artifact_buckets import ArtifactBucketPlan

        return ArtifactBucketPlan(
            maker=engine_named(first.engine, settings),
            graph=self.frozen,
            target=first.target,
            knobs=dict(first.knobs),
            cache="artifact",
            buckets=self._buckets(records),
            build=lambda bucket: next(
                self._of_code(record, code, settings)
                for record, code in zip(records, codes, strict=True)
                if record.bucket == bucket
            ),
        )

    def _buckets(self, records: list[PlanRecord]) -> dict[str, Buckets]:
        """Return the buckets that a plan has code for, or raise `ArtifactError`."""
        held = [dict(record.bucket) for record in records]
        try:
            found = as_buckets(
                self.frozen.symbols,
                {
                    name: sorted({bucket[name] for bucket in held})
                    for name in dict.fromkeys(n for bucket in held for n in bucket)
                },
            )
            every = combinations(found)
        except (GraphError, KeyError) as error:
            raise self._unsound(f"its buckets are refused: {error}") from None
        if len(held) != len(every) or any(bucket not in held for bucket in every):
            raise self._unsound("it lacks the code of some buckets, or has it twice")
        return found

    def _code(self, record: PlanRecord) -> bytes:
        """Return the code of a plan, or raise `DeviceError` if this CPU cannot run it."""
        code = self._part(record.part)
        if record.target.is_cpu:
            from ...jit.runtime.cpu import missing_features

            lacking = missing_features(code)
            if lacking:
                raise DeviceError(
                    f"{self.label}: the code for {record.target} needs {', '.join(lacking)}, which "
                    "this CPU lacks; make the artifact for a smaller CPU too, such as cpu:x86-64-v3"
                )
        return code

    def _of_code(self, record: PlanRecord, code: bytes, settings: Settings) -> Plan:
        from ..engines.iree.iree_engine import IreeEngine, settings_with

        compiled = Compiled(
            key=record.key,
            vmfb=code,
            sha256=record.sha256,
            signature=self._must_match(record),
            cache="artifact",
            statistics=dict(record.statistics),
            workspace_bytes=record.workspace_bytes,
        )
        engine = IreeEngine(settings)
        return engine.plan(
            self._at(record),
            record.target,
            dict(record.knobs),
            compiled,
            settings_with(
                settings,
                {name: choice for name, choice in record.knobs.items() if name == "driver"},
            ),
        )

    def _at(self, record: PlanRecord) -> FrozenGraph:
        """Return the graph at the sizes that a code was made for."""
        if not record.bucket:
            return self.frozen
        try:
            return at_sizes(self.frozen, record.bucket)
        except GraphError as error:
            raise self._unsound(f"its buckets are refused: {error}") from None

    def _part(self, name: str) -> bytes:
        """Return a part whose digest is right."""
        try:
            return self._container.part(name)
        except DamagedError as damage:
            raise self._unsound(damage) from None

    def _unsound(self, problem: object) -> ArtifactError:
        return ArtifactError(f"{self.label} is no sound artifact: {problem}")

    def _must_match(self, record: PlanRecord) -> Any:
        """Return the signature of the graph at hand, which the code was compiled for."""
        expected = signature_of(self._at(record), record.workspace_bytes or 0)
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
    return Artifact(Path(path).read_bytes(), str(path))


def read_graph(name: str, data: bytes) -> Graph:
    """Read the part that is the graph; settings that reinterpret foreign graphs do not count."""
    if name.endswith(".json"):
        return Graph.from_json(data)
    from ...graph_api.formats.flatbuffer.decode import decode

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


def _identity(record: PlanRecord) -> object:
    """Return what codes of one plan have in common; each but a bucket's is a plan of its own."""
    if not record.bucket:
        return id(record)
    return record.engine_id, tuple(sorted(record.knobs.items())), record.target


def _is(
    record: PlanRecord,
    engine: str | None,
    knobs: Mapping[str, str] | None,
    settings: Settings,
) -> bool:
    if engine is not None and record.engine != engine_named(engine, settings).NAME:
        return False
    return knobs is None or dict(knobs) == dict(record.knobs)


def _described(record: PlanRecord) -> str:
    chosen = ", ".join(f"{name}={value}" for name, value in record.knobs.items())
    where = f"{record.target} at {in_words(record.bucket)}" if record.bucket else str(record.target)
    return f"{where}{f' with {chosen}' if chosen else ''} by {record.engine}"
