# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recorded buffers of hipDNN, and what the wire tests share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "data" / "opgraphs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.bin"))


@dataclass(frozen=True)
class Recorded:
    """A graph as hipDNN's backend passed it to a plugin, and what hipDNN says is in it."""

    name: str
    data: bytes
    json: dict[str, Any]


def recorded_graph(name: str) -> Recorded:
    path = FOLDER / name
    text = path.with_suffix(".json").read_text(encoding="utf-8")
    return Recorded(name, path.with_suffix(".bin").read_bytes(), json.loads(text))


@pytest.fixture(params=NAMES)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Each of the recorded graphs."""
    return recorded_graph(request.param)


@pytest.fixture(scope="session")
def all_recorded() -> list[Recorded]:
    """All of the recorded graphs."""
    return [recorded_graph(name) for name in NAMES]


@pytest.fixture(scope="session")
def recorded_config() -> bytes:
    """The recorded engine configuration."""
    return (FOLDER / "engine_config_4242001.cfg").read_bytes()
