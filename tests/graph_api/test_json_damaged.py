# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Garbage, mutated and damaged graph JSON: it loads, or it says why not."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from graph_json import FILES, problems, read
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.graph import Graph
from hypothesis import given, settings
from hypothesis import strategies as st


def test_megabytes_of_garbage_are_turned_away(
    ends: Callable[[], AbstractContextManager[None]],
) -> None:
    rng = random.Random(3)
    size = 5_000_000
    for text in (
        rng.randbytes(size),
        b"\x00" * size,
        b" " * size + b"x",
        b"[" * size,
        b'{"nodes": [' + b"0," * (size // 2) + b'0], "tensors": {}}',
        b'"' + b"a" * size,
        b"9" * size,
        ('{"nodes": "' + "é" * size + '", "tensors": []}').encode(),
        ('{"nodes": ' + "[" * 900 + "]" * 900 + ', "tensors": 1}').encode(),
    ):
        with ends():
            for problem in problems(text):
                assert len(str(problem)) < 500


ATOMS = st.sampled_from(
    [None, True, False, 0, 1, -1, 2.5, 1e300, 2**63, "", "x", "relu_fwd", "float", [], {}, [[]],
     [1], [None], {"uid": 1}, "in_0_tensor_uid"]
)  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into the value."""
    children = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(p for key, value in children for p in places(value, (*path, key)))]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
@settings(max_examples=100)
@given(data=st.data())
def test_mutated_files(file: Path, data: st.DataObject) -> None:
    value = json.loads(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(places(value)[1:]))
        holder = value
        for part in path[:-1]:
            holder = holder[part]
        change = data.draw(st.sampled_from(["replace", "remove", "double", "swap"]))
        if change == "remove":
            del holder[path[-1]]
        elif change == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[path[-1]]))
        elif change == "swap":
            other: Any = value
            for part in data.draw(st.sampled_from(places(value))):
                other = other[part]
            holder[path[-1]] = copy.deepcopy(other)
        else:
            holder[path[-1]] = copy.deepcopy(data.draw(ATOMS))
        if not value:
            break
    judge(json.dumps(value))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_damaged_bytes(file: Path) -> None:
    whole = file.read_bytes()
    rng = random.Random(file.name)
    for _ in range(150):
        text = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            kind = rng.randrange(3)
            if kind == 0:
                text[at] = rng.randrange(256)
            elif kind == 1:
                del text[at : at + rng.randrange(1, 40)]
            else:
                text[at:at] = rng.choice([b"0", b'"', b"[", b"}", b"-", b"e9", b"null", b"\xff"])
        judge(bytes(text))
    for at in range(0, len(whole), 37):
        judge(whole[:at])


def judge(text: str | bytes) -> None:
    """Either it loads and freezes, or it says why not, in records."""
    try:
        g = Graph.from_json(text)
        frozen = g.freeze()
    except (FormatError, GraphError) as error:
        for problem in error.problems:
            assert all([problem.rule, problem.got, problem.wanted]), problem
        assert error.problems  # noqa: PT017
        assert len(str(error)) < 20_000  # noqa: PT017
        return
    assert read(g.to_json()).freeze() == frozen
