# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A store of the code cache of its own, and a quick one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipdnn_iree.jit.cache import CacheStore


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of puts on a busy disk take a minute; who asks for this cuts no power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    return CacheStore(tmp_path / "cache")
