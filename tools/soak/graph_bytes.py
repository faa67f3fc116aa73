# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated FlatBuffers of graphs, in-process."""

from __future__ import annotations

from random import Random

from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_writer import write

from tools.soak.attack import Inputs
from tools.soak.judging import judge
from tools.soak.mutators import damaged, mutated, recorded, seeds_record

__all__ = ["make", "replay", "run"]


def make(rng: Random) -> bytes:
    """Return a mutant."""
    seeds = seeds_record()
    record, era = rng.choice(seeds)
    if rng.random() < 0.03:
        return damaged(rng, rng.choice(recorded()), rng.choice(recorded()))
    if rng.random() < 0.75:
        record = mutated(rng, record, rng.choice(seeds)[0])
    try:
        data = write(record, era=era)
    except (FormatError, AssertionError, AttributeError, KeyError, TypeError, ValueError):
        data = b""  # no longer a record of the schema
    if not data or rng.random() < 0.25:
        whole = data or write(rng.choice(seeds)[0])
        data = damaged(rng, whole, whole)
    return data


inputs = Inputs(make, judge)
run, replay = inputs.run, inputs.replay
