# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated graph JSON, in-process."""

from __future__ import annotations

import json
from random import Random

from tools.soak.attack import Inputs
from tools.soak.judging import judge
from tools.soak.mutators import as_json, damaged, mutated, seeds_json

__all__ = ["replay", "run"]


def make(rng: Random) -> bytes:
    """Return a mutant."""
    seeds = seeds_json()
    text, other = rng.choice(seeds), rng.choice(seeds)
    if rng.random() < 0.15:
        return damaged(rng, text.encode(), other.encode())
    return as_json(mutated(rng, json.loads(text), json.loads(other)))


inputs = Inputs(make, judge)
run, replay = inputs.run, inputs.replay
