# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs through the plugin's C interface, with red zones around every buffer.

The host (``tools/host``) puts each operand, result, workspace, graph and configuration between
pages that nobody may touch, with poison up to them, and executes in three ways: with its own
workspace, with one of the pool, and as a plan that was saved and loaded.  Some of the graphs have
gaps in their results, some are executed at other sizes than their own.  What is written outside of
a buffer, between the elements of a result, or into an operand is a failure, as is a result that the
reference does not allow.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.specialise import specialise
from hipdnn_iree.hipdnn_plugin import messages
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph
from hipdnn_iree.provider.sweep.gaps import with_gaps

from tools.host.driver import Answering, EndedError, Host, Job, write_job, write_shapes
from tools.soak.attack import BrokenError, Budget, Result, many
from tools.soak.random_graphs import COMPILED_IN_NO_STRATEGY

__all__ = ["ERAS", "Job", "Zones", "draw", "replay", "run"]

_SKEWS = (0, 0, 0, 16, 32, 48)  # hipDNN's hosts align to 16 bytes, IREE to 64
_HOW = ("plain", "plain", "gaps", "overridden")
ERAS = {"n25": Era.N25, "m26": Era.NODE, "new": Era.NODE}


class Zones:
    """Hosts of each era that are asked one graph after the other.

    Parameters
    ----------
    folder : Path
        Of the host and of the files of a graph.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count()
        host = Host(folder)
        self._hosts = {era: Answering(host, "serve", era=era) for era in ERAS}

    def judge(self, case: bytes) -> Iterator[str]:
        """Yield what becomes of a graph, at last ``ok`` or why it was not executed."""
        drawn = json.loads(case)
        seed, other = drawn["seed"], None
        made = random_graph(seed, nodes=drawn["nodes"])
        made.is_override_shape_enabled = drawn["how"] == "overridden"
        graph = made.freeze()
        if drawn["how"] == "gaps":
            graph = with_gaps(graph, seed)
        if drawn["how"] == "overridden" and (other := other_sizes(graph, Random(seed))) is None:
            yield "no other sizes"
            return
        try:
            data = encode(graph, ERAS[drawn["era"]])
        except FormatError:  # the era does not have all ops and types
            yield "no form"
            return
        how = "" if drawn["how"] == "plain" else f" {drawn['how']}"
        for answer in self.serve(data, drawn["era"], skew=drawn["skews"], seed=seed, other=other):
            yield f"{answer}{how}"

    def serve(
        self,
        data: bytes,
        era: str,
        *,
        skew: Sequence[int],
        seed: int = 0,
        other: FrozenGraph | None = None,
    ) -> Iterator[str]:
        """Yield what becomes of the bytes of a graph, which is executed at the sizes of another."""
        folder = self._folder / f"case{next(self._numbers)}"
        job = write_job(folder, data, skew=skew, seed=seed, graph=other)
        if other is not None:
            own = messages.graph(data).tensors
            pairs = {uid: other.tensors[uid] for uid in (*other.inputs, *other.outputs)}
            shapes = {uid: (spec.dims, spec.strides) for uid, spec in pairs.items()}
            changed = {u: s for u, s in shapes.items() if s != (own[u].dims, own[u].strides)}
            write_shapes(folder / "shapes", changed)
        try:
            answer = self._hosts[era].ask(f"{folder}\n".encode())
        except EndedError as error:
            raise BrokenError(str(error)) from error
        if "(stage: " in answer:
            yield "compile error"
        elif other is not None and "status 5 of " in answer and "OVERRIDE-0" in answer:
            yield "declined"
        elif answer not in ("ok", "declined"):
            raise BrokenError(answer)
        else:
            yield "executed"
            try:
                if answer == "ok":
                    job.verify()
            except AssertionError as error:
                raise BrokenError(f"{error!s:.1000}") from error
            yield answer
        shutil.rmtree(folder)

    def close(self) -> str:
        """End the hosts, and return what went wrong."""
        return "".join(host.close() for host in self._hosts.values())


def other_sizes(graph: FrozenGraph, rng: Random) -> FrozenGraph | None:
    """Return the graph with another extent for all dims of one size, where its rules allow it."""
    inputs = {uid: graph.tensors[uid] for uid in graph.inputs}
    extents = sorted({d for spec in inputs.values() for d in spec.dims if d > 1})
    for old in rng.sample(extents, len(extents)):
        new = rng.choice([n for n in range(1, old + 3) if n != old])
        for axes in (range(1), range(1, 8), range(8)):
            dims = {
                uid: tuple(new if d == old and i in axes else d for i, d in enumerate(spec.dims))
                for uid, spec in inputs.items()
            }
            shapes = {u: (d, None) for u, d in dims.items() if d != inputs[u].dims}
            with suppress(GraphError):
                if shapes:
                    return specialise(graph, shapes)
    return None


def draw(rng: Random) -> bytes:
    """Return a case: which graph, in which era, and where its buffers lie."""
    return json.dumps(
        {
            "seed": rng.randrange(1 << 40),
            "nodes": rng.choice((0, 1, 2, 3, 5)),
            "how": (how := rng.choice(_HOW)),
            "era": rng.choice(list(ERAS)[how == "overridden" :]),
            "skews": [rng.choice(_SKEWS) for _ in range(5)],
        }
    ).encode()


def _attack(budget: Budget, seed: int, cases: list[bytes] | None = None) -> Result:
    zones, given = Zones(budget.scratch), iter(cases or ())
    # Compiling and the reference take what they take; the driver finds hosts that hang.
    found = many(
        budget,
        seed,
        lambda rng: next(given) if cases else draw(rng),
        zones.judge,
        clock=lambda: 0.0,
    )
    if said := zones.close():
        found.fail(said)
    errors, graphs = found.counts["compile error"], found.counts.total()
    if errors > max(1, COMPILED_IN_NO_STRATEGY * graphs):
        found.fail(f"{errors} of {graphs} graphs compile in no strategy")
    return found


def run(budget: Budget, seed: int) -> Result:
    """Attack until the time is over."""
    return _attack(budget, seed)


def replay(budget: Budget, case: bytes) -> Result:
    """Try one graph."""
    budget.seconds = 0
    return _attack(budget, 0, [case])
