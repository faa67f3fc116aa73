# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One measurement, and what a file of them may hold.

``docs/reference/winners.schema.json`` is made from these classes, and files are read by them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...graph_api.frozen import FrozenGraph
from .candidate import Candidate
from .match_key import match_keys
from .peaks import machine_of

__all__ = ["VERSION", "Entry", "MatchNote", "WinnersFile"]

VERSION = 1

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Dims = tuple[Int64, ...]
Microseconds = Annotated[float, Meta(ge=0, lt=1e12)]


class MatchNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule of hipDNN's that names the winner has to match.

    Attributes
    ----------
    op
        The operation; empty where hipDNN's rules have no such op.
    criteria
        Numbers of its modes.
    tensors
        Id, dims and strides of its inputs.
    """

    op: str = ""
    criteria: dict[str, Int64] = {}
    tensors: tuple[tuple[str, Dims, Dims], ...] = ()


class Entry(Struct, frozen=True, kw_only=True):
    """One measurement.

    Attributes
    ----------
    graph
        Digest of the graph.
    target
        Canonical spelling of the target.
    machine
        What the time was measured on.
    engine
        Name of the engine.
    engine_id
        Its id.
    knobs
        Those that are not the engine's defaults.
    versions
        The versions that the time depends on, as the engine named them then.
    median_us
        Median time of one execution, in microseconds.
    low_us, high_us
        Quartiles of the time.
    samples
        How many there were.
    estimated_us
        What the cost model said, before calibration; 0 when it was not asked.
    model
        Version of that model.
    when
        Time of the measurement, ISO 8601 in UTC.
    name
        Name of the graph, for people.
    rule
        What hipDNN's rules match.
    """

    graph: str
    target: str
    machine: str
    engine: str
    engine_id: Int64
    knobs: dict[str, str]
    versions: dict[str, str]
    median_us: Annotated[float, Meta(gt=0, lt=1e12)]
    low_us: Microseconds
    high_us: Microseconds
    samples: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    estimated_us: Microseconds = 0.0
    model: Int64 = 0
    when: str = ""
    name: str = ""
    rule: MatchNote = MatchNote()

    def __post_init__(self) -> None:
        if not self.low_us <= self.median_us <= self.high_us:
            raise ValueError("the median is not between the quartiles")

    @classmethod
    def of(
        cls,
        candidate: Candidate,
        quartiles: tuple[float, float, float],
        samples: int,
        *,
        estimated_us: float,
        model: int,
    ) -> Entry:
        """Return the entry of a candidate that was measured; times in microseconds."""
        graph, low, median, high = candidate.graph, *quartiles
        return cls(
            graph=graph.digest,
            target=str(candidate.target),
            machine=machine_of(candidate.target),
            engine=candidate.name,
            engine_id=candidate.engine.id,
            knobs=dict(candidate.choice),
            versions=dict(candidate.engine.versions()),
            median_us=median,
            low_us=low,
            high_us=high,
            samples=samples,
            estimated_us=estimated_us,
            model=model,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            name=graph.name,
            rule=_match_note(graph),
        )

    @property
    def place(self) -> tuple[str, str, str]:
        """What it was measured for and on."""
        return self.graph, self.target, self.machine


class WinnersFile(Struct, frozen=True, kw_only=True):
    """A file of measured times.

    Attributes
    ----------
    version
        Of the format.
    entries
        The measurements.
    """

    version: Literal[1]
    entries: list[Entry]


def _match_note(graph: FrozenGraph) -> MatchNote:
    keys = match_keys(graph)
    if not keys:
        return MatchNote()
    return MatchNote(
        op=keys[0].op,
        criteria=dict(keys[0].criteria),
        tensors=tuple((t.id, tuple(t.dims), tuple(t.strides)) for t in keys[0].tensors),
    )
