# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running the command line in this process, and small graphs to run it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hipdnn_iree import Graph
from hipdnn_iree.provider.cli.app import app
from json_output import checked


@dataclass(frozen=True)
class Outcome:
    """What a command line gave."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the one JSON object that stdout has to hold, less its version and command."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return checked(found)


@pytest.fixture
def cli() -> Callable[..., Outcome]:
    """Call the command line; anything that is not meant to be printed fails the test."""

    def call(*words: object, stdin: str | bytes | None = None) -> Outcome:
        name = "hipdnn-iree"
        found = CliRunner().invoke(app, list(map(str, words)), input=stdin, prog_name=name)
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        if "--traceback" not in words:
            assert "Traceback" not in found.stderr
        return Outcome(found.exit_code, found.stdout, found.stderr)

    return call


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test alone."""
    folder = tmp_path / "own-cache"
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of graph files, made once: compiled once, then found in the cache."""
    folder = tmp_path_factory.mktemp("graphs")

    # Two inputs, of which one has a name that is no identifier; channels last; two outputs.
    add = Graph("add", io_data_type="float")
    a = add.tensor(dims=(2, 3, 4, 5), strides=(60, 1, 15, 3), name="left side")
    b = add.tensor(dims=(1, 3, 1, 1), name="b", uid=40)
    total = add.output(add.add(a, b), name="sum")
    add.relu(total).set_output()
    add.save(folder / "add.json")

    bf16 = Graph("bf16", io_data_type="bfloat16", compute_data_type="float")
    bf16.output(bf16.mul(bf16.tensor(dims=(4, 8), name="x"), 2.0), name="y")
    bf16.save(folder / "bf16.json")

    conv = Graph("conv bias relu", io_data_type="half", compute_data_type="float")
    x = conv.tensor(dims=(2, 32, 8, 8), strides=(2048, 1, 256, 32), name="x")
    w = conv.tensor(dims=(32, 32, 3, 3), strides=(288, 1, 96, 32), name="w")
    bias = conv.tensor(dims=(1, 32, 1, 1), name="bias")
    conv.output(conv.relu(conv.add(conv.conv_fprop(x, w, padding=1), bias)), name="y")
    conv.save(folder / "conv.json")

    declined = Graph("declined", io_data_type="float")
    z = declined.tensor(dims=(4, 4), name="z")
    z.ragged_offset_uid = declined.tensor(dims=(4,), data_type="int32", name="rows").uid
    declined.output(declined.relu(z), name="y")
    declined.save(folder / "declined.json")
    return folder


@pytest.fixture(scope="session")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph file with a dynamic dim n of 1 to 4096 rows."""
    g = Graph("rows", io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(g.dynamic("n", range=(1, 4096), example=8), 6), name="x")
    g.output(g.mul(x, g.tensor(dims=(1, 6), name="w")), name="y")
    path = tmp_path_factory.mktemp("rows") / "rows.json"
    g.save(path)
    return path
