# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated graphs through every entry point that takes one: always a status, never a crash."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

GRAPHS = Path(__file__).parents[1] / "data" / "opgraphs"
ODD = (0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFC, 0xFFFFFFFF)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a graph with a few bytes, words or pieces of it changed."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(found))
        kind = rng.randrange(6)
        if kind == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            found[at] = rng.randrange(256)
        elif kind == 2:
            word = struct.pack("<I", rng.choice(ODD))
            at -= at % 4
            found[at : at + 4] = word
        elif kind == 3:
            del found[at : at + rng.choice((1, 4, 8, 64))]
        elif kind == 4:
            found[at:at] = rng.randbytes(rng.choice((1, 4, 8)))
        else:
            source = rng.randrange(len(found))
            size = rng.choice((4, 8, 16))
            found[at : at + size] = found[source : source + size]
        if not found:
            return b"\0"
    return bytes(found)


def corpus(count: int, seed: int) -> bytes:
    rng = random.Random(seed)
    originals = [path.read_bytes() for path in sorted(GRAPHS.glob("*.bin"))]
    buffers = (mutated(rng.choice(originals), rng) for _ in range(count))
    return b"".join(struct.pack("<I", len(buffer)) + buffer for buffer in buffers)


def fuzz(host: Any, make_job: Any, folder: Path, count: int, seed: int) -> dict[str, int]:
    job = make_job((GRAPHS / "pw_relu_all.bin").read_bytes())
    (folder / "corpus").write_bytes(corpus(count, seed))
    facts = host.run("fuzz", job.arguments[1], folder / "corpus", os.devnull, timeout=1200)
    found = {key: int(value) for key, value in facts.items()}
    assert found["total"] == count
    # Nothing but "served or not" and "damaged" may come of it.
    assert found["status_0"] + found["status_2"] == count
    assert 0 < found["served"] < count / 2
    return found


def test_mutated_graphs(host: Any, make_job: Any, tmp_path: Path) -> None:
    fuzz(host, make_job, tmp_path, 1000, 1)


@pytest.mark.full
def test_many_mutated_graphs(host: Any, make_job: Any, tmp_path: Path) -> None:
    fuzz(host, make_job, tmp_path, 20_000, 2)
