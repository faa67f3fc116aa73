# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged graph files, real ones changed at random: a clear error or a graph, never a crash."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from here_and_now import candidates
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, GraphError


def originals() -> dict[str, str]:
    """Return the JSON of graphs that together have every kind of field."""
    conv = Graph("conv", io_data_type="half", compute_data_type="float")
    x = conv.tensor(dims=(2, 8, 9, 9), strides=(648, 1, 72, 8), name="image")
    w = conv.tensor(dims=(4, 4, 3, 3), name="filter")
    y = conv.conv_fprop(x, w, pre_padding=(1, 0), post_padding=(0, 1), stride=2, name="c")
    bias = conv.tensor(dims=(1, 4, 1, 1), name="b")
    conv.output(conv.relu(conv.add(y, bias), lower_clip=0.5, upper_clip=6.0), name="y")

    matmul = Graph("ünï 'quoted' \n", io_data_type="float")
    a = matmul.tensor(dims=(4, 3, 5), uid=-7, name="a")
    b = matmul.tensor(dims=(2, 5, 6), strides=(30, 1, 5), uid=2**40)
    c = matmul.matmul(a, b, compute_data_type="double")
    matmul.output(matmul.mul(c, 0.125), data_type="double")

    reduction = Graph(io_data_type="int8", compute_data_type="int32")
    r = reduction.tensor(dims=(5, 6, 7))
    reduction.output(reduction.reduction(r, mode="max", axes=(0, 2)), data_type="int8")
    picked = reduction.binary_select(
        r, reduction.scalar(3, data_type="int8"), reduction.scalar(True, data_type="boolean")
    )
    reduction.output(picked, data_type="int8")
    graphs = {"conv": conv, "matmul": matmul, "reduction": reduction}
    return {name: graph.to_json() for name, graph in graphs.items()}


NASTY: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        7,
        255,
        2**31,
        2**53,
        2**62,
        2**63,
        -(2**63),
        -(2**63) - 1,
    ),
    *(2**64, 10**40, 10**400, 0.0, -0.0, 0.5, 1e-320, 1e39, 1.7e308, 3.0, -2.0, 1e18, 1e19),
    *("", "float", "half", "FLOAT", "relu_fwd", "add", "NOT_SET", "\0", "\ud800", "🔥" * 50, "NaN"),
    *("x" * 10_000, "\x1b[2J\r\n", "nodes", "Float16Value", "NONE", "BoolValue", "Float8Value"),
    *([], {}, [[]], [{}], [1], [1, 2, 3], [0] * 9, [-1, -1], ["a"], {"a": 1}, {"uid": 1}),
    *([2**31] * 4, [2**62, 2], [1] * 8, [3, None], [True, False], [0.5], [2.0, 3.0]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a JSON value."""
    pairs: Any = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, item in pairs:
        yield (*path, key)
        yield from places(item, (*path, key))


def holder(data: Any, path: tuple[Any, ...]) -> Any:
    """Return the list or object that holds the value at a path."""
    for key in path[:-1]:
        data = data[key]
    return data


def _replace(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    holder(data, path)[path[-1]] = copy.deepcopy(rng.choice(NASTY))


def _delete(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    del holder(data, path)[path[-1]]


def _duplicate(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    inside = holder(data, path)
    if isinstance(inside, list):
        inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[path[-1]]))
    else:
        inside[f"{path[-1]}_"] = inside[path[-1]]


def _rename(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    inside = holder(data, path)
    if isinstance(inside, dict):
        inside[rng.choice(["", "uid", "type", "inputs", "\ud8ff", path[-1].upper()])] = inside.pop(
            path[-1]
        )


def _swap(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    other = rng.choice(list(places(data)))
    if other[: len(path)] == path or path[: len(other)] == other:
        return
    a, b = holder(data, path), holder(data, other)
    a[path[-1]], b[other[-1]] = b[other[-1]], a[path[-1]]


def _wrap(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    inside = holder(data, path)
    inside[path[-1]] = rng.choice([[inside[path[-1]]], {"value": inside[path[-1]]}])


def _nudge(rng: random.Random, data: Any, path: tuple[Any, ...]) -> None:
    inside = holder(data, path)
    value = inside[path[-1]]
    if isinstance(value, bool):
        inside[path[-1]] = not value
    elif isinstance(value, int | float):
        inside[path[-1]] = rng.choice([value + 1, value - 1, -value, value * 1000, value / 2])
    elif isinstance(value, str):
        inside[path[-1]] = rng.choice([value[:-1], value + "x", value.swapcase(), [value]])
    else:
        _replace(rng, data, path)


_CHANGES: tuple[Callable[[random.Random, Any, tuple[Any, ...]], None], ...] = (
    *(_replace, _replace, _nudge, _nudge, _delete, _duplicate, _rename, _swap, _wrap),
)


def _structural(rng: random.Random, text: str) -> bytes:
    data = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        rng.choice(_CHANGES)(rng, data, rng.choice(list(places(data))))
    return json.dumps(data).encode("utf-8", "surrogatepass")


def _binary(rng: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice([1, 1, 2, 8, 200]))
    kind = rng.randrange(6)
    if kind == 0:  # one bit
        data[start] ^= 1 << rng.randrange(8)
    elif kind == 1:  # garbage over it
        data[start:stop] = rng.randbytes(stop - start)
    elif kind == 2:  # a hole
        del data[start:stop]
    elif kind == 3:  # said twice
        data[start:start] = data[start:stop]
    elif kind == 4:  # cut off
        del data[start:]
    else:  # other digits
        data[start:stop] = bytes(rng.choice(b'0123456789-.eE,[]{}":') for _ in range(stop - start))
    return bytes(data)


def _garbage(rng: random.Random, text: str) -> bytes:
    return rng.choice(
        [
            rng.randbytes(rng.randrange(1, 300)),
            b"",
            b"\xef\xbb\xbf",
            b"[" * rng.randrange(1, 100_000),
            b'{"nodes":' * 5_000,
            text.encode("utf-16"),
            b"\0" * 64,
            json.dumps(copy.deepcopy(rng.choice(NASTY))).encode(),
            b'{"nodes": [], "tensors": []}',
            b'{"nodes": [' + b"9" * 5000 + b'], "tensors": []}',
        ]
    )


def mutants(count: int, seed: int = 2026) -> Iterator[bytes]:
    """Yield damaged graph files, the same ones for the same seed."""
    texts = list(originals().values())
    for i in range(count):
        rng = random.Random(f"{seed}/{i}")
        change = rng.choices([_structural, _binary, _garbage], [6, 3, 1])[0]
        yield change(rng, rng.choice(texts))


def outcome(data: bytes) -> str:
    """Return what a graph file is, after a look at the graph or at the error."""
    try:
        graph = Graph.from_json(data)
        frozen = graph.freeze()
    except (FormatError, GraphError) as error:
        problems, kind = error.problems, type(error).__name__
        return kind if problems and all(p.rule and p.got and p.wanted for p in problems) else "mute"
    # What is let through is a graph: engines judge it, and what is written is read again.
    for candidate in candidates(frozen, "cpu"):
        assert all(d.problem.rule for d in candidate.reasons)
    try:
        text = graph.to_json()
    except FormatError as error:  # JSON has no infinity
        return "valid" if {p.rule for p in error.problems} == {"JSON-08"} else "mute"
    assert Graph.from_json(text).freeze() == frozen
    return "valid"


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_a_clear_error_or_a_graph(seed: int) -> None:
    outcomes = Counter(map(outcome, mutants(300, seed)))
    assert set(outcomes) == {"valid", "FormatError", "GraphError"}
    assert min(outcomes.values()) > 10  # it damages neither too little nor too much


def test_the_command_line_survives_damaged_files(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    codes: Counter[int] = Counter()
    for i, data in enumerate(mutants(200)):
        path.write_bytes(data)
        command = (["show", "--format", "digest"], ["show"], ["explain"], ["show", "--json"])[i % 4]
        found = cli(*command, path)
        codes[found.code] += 1
        assert found.code in (0, 2, 3), found.err
        if found.code == 2:
            assert found.err.startswith("error [E")
            assert "graph.json" in found.err or "breaks" in found.err
            if "--json" in command:
                assert found.json()["error"]["problems"]
            else:
                assert found.out == ""
    assert codes[0] > 20
    assert codes[2] > 100
