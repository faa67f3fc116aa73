"""Mutated graph JSON, in-process."""

from __future__ import annotations

import json
from random import Random

from tools.soak.attack import Budget, Result, attempt, limit_memory, many
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


def run(budget: Budget, seed: int) -> Result:
    """Attack until the time is over."""
    limit_memory()
    return many(budget, seed, make, judge)


def replay(budget: Budget, case: bytes) -> Result:
    """Try one input."""
    found = Result()
    attempt(found, budget, case, judge)
    return found
