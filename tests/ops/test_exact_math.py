# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Angles and remainders of every size, against Python's integers and fractions.

π is calculated here, by another formula than the code's, and the sine by its series in fractions;
NumPy's own functions are held to the same, as the reference engine rests on them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, PointwiseMode
from hipdnn_iree.provider.reference import expect

Array = np.ndarray[Any, Any]
KINDS = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
NAMES = ("SIN", "COS", "TAN")
UNITS = {"SIN": 2, "COS": 2, "TAN": 4}  # epsilons of the result, at every angle
WIDTH = 300  # bits of a fraction


@cache
def _pi() -> Fraction:
    """Return π to 1,400 bits, by Gauss's formula of three arc tangents."""
    one = 1 << 1500

    def arctan(n: int) -> int:
        total = term = one // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    return Fraction(4 * (12 * arctan(18) + 8 * arctan(57) - 5 * arctan(239)), one)


def _series(y: int, start: int) -> int:
    total = term = y if start else 1 << WIDTH
    n = start
    while abs(term) > 1:
        term = -((term * y >> WIDTH) * y >> WIDTH) // ((n + 1) * (n + 2))
        n += 2
        total += term
    return total


def _exact(x: float) -> dict[str, Fraction]:
    turns = Fraction(x) / (_pi() / 2)
    k = round(turns)
    rest = (turns - k) * _pi() / 2
    y = (rest.numerator << WIDTH) // rest.denominator
    s, c = (Fraction(_series(y, start), 1 << WIDTH) for start in (1, 0))
    s, c = [(s, c), (c, -s), (-s, -c), (-c, s)][k % 4]
    return {"SIN": s, "COS": c, "TAN": s / c}


def _angles(kind: np.dtype[Any]) -> list[float]:
    """Return angles of every size, of both signs, many beside a multiple of π/2."""
    rng, info = random.Random(5), np.finfo(kind)
    found = [float(info.max), 1e-30, math.pi, math.pi / 2, 1.5, 0.75, 1e22]
    exponents = range(-30, int(info.maxexp), 1 if kind.itemsize == 4 else 5)
    for e in exponents:
        found += [math.ldexp(1 + rng.random() * 0.999, e) for _ in range(2)]
        if e >= 0:
            multiple = rng.getrandbits(e + 1) | 1
            found.append(float(multiple * _pi() / 2) if e < 1000 else 0.5)
    # Where the bits of 2/π that count change, and the angles that are nearest to whole turns.
    for e in (51, 54, 77, 80, 103, 106, 54 + 26 * 7, 54 + 26 * 31, 54 + 26 * 36):
        if e < info.maxexp - 1:
            found += [2.0**e, 2.0**e * (1 - float(info.eps)), 2.0**e * (1 + float(info.eps))]
    if kind.itemsize == 8:
        found.append(6381956970095103 * 2.0**797)
    found.append(float.fromhex("0x1.47d0fep34"))
    rounded = np.array(found).astype(kind).astype(float)
    return [v for x in rounded for v in (x, -x)]


@pytest.mark.parametrize("name", KINDS)
def test_angles_of_every_size(name: str) -> None:
    kind = KINDS[name]
    values = np.array([*_angles(kind), math.inf, -math.inf, math.nan, 0.0, -0.0], kind)
    graph = Graph(io_data_type=name, compute_data_type=name)
    x = graph.tensor(dims=values.shape)
    outputs = {f: graph.pointwise(x, mode=PointwiseMode[f]).set_output() for f in NAMES}
    results = graph.build("cpu").run({x: values})
    eps = float(np.finfo(kind).eps)
    known = [_exact(float(v)) for v in values[:-5]]
    with np.errstate(all="ignore"):
        numpy = {f: getattr(np, f.lower())(values.astype(np.float64)) for f in NAMES}
    for f in NAMES:
        got = results[outputs[f].uid].astype(float)
        for found, units in ((got, UNITS[f] * eps), (numpy[f], 8 * 2.0**-52)):
            errors = [
                abs(float((Fraction(v) - exact[f]) / exact[f]))
                for v, exact in zip(found.tolist(), known, strict=False)
            ]
            worst = max(range(len(errors)), key=errors.__getitem__)
            assert errors[worst] <= units, (f, float(values[worst]).hex(), errors[worst] / eps)
        assert np.isnan(got[-5:-2]).all()
        signs = np.signbit(got[-2:]).tolist()
        assert signs == ([False, False] if f == "COS" else [False, True]), f


def test_subnormal_angles() -> None:
    """They are their own sine, or 0 on a CPU that has none."""
    values = np.array([5e-324, -5e-324, 1e-310, -2.2e-308])
    graph = Graph(io_data_type="double", compute_data_type="double")
    x = graph.tensor(dims=values.shape)
    s, c = graph.sin(x).set_output(), graph.cos(x).set_output()
    results = graph.build("cpu").run({x: values})
    assert ((results[s.uid] == values) | (results[s.uid] == 0)).all()
    assert results[c.uid].tolist() == [1, 1, 1, 1]


def _fmod(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    if math.isinf(y):
        return x
    rest = abs(Fraction(x)) % abs(Fraction(y))
    return math.copysign(float(rest), x)


def _operands(kind: np.dtype[Any], every: int) -> Array:
    rng, info = random.Random(9), np.finfo(kind)
    least = int(info.minexp) - int(info.nmant)
    found = [0.0, math.inf, math.nan, float(info.max), float(info.smallest_subnormal), 3.0, 0.1]
    found += [float(info.smallest_normal), 1.0, float(2**53 - 1), 1e22]
    for e in range(least, int(info.maxexp), every):
        found.append(math.ldexp(1 + rng.random() * 0.99, e))
    found += [math.ldexp(1, e) for e in (least + 1, -1022, -500, 499, 1023) if e < info.maxexp]
    with np.errstate(under="ignore"):
        return np.array([v for x in found for v in (x, -x)]).astype(kind)


def _remainders(name: str, every: int, function: Callable[[float, float], float]) -> list[str]:
    values = _operands(KINDS[name], every)
    graph = Graph(io_data_type=name, compute_data_type=name)
    column, row = graph.tensor(dims=(len(values), 1)), graph.tensor(dims=(1, len(values)))
    y = graph.mod(column, row).set_output()
    given = {column: values[:, None], row: values[None]}
    got = graph.build("cpu").run(given)[y.uid]
    wrong = []
    for i, a in enumerate(values.tolist()):
        for j, c in enumerate(values.tolist()):
            found, wanted = float(got[i, j]), function(a, c)
            same = found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
            if not same and not (math.isnan(found) and math.isnan(wanted)):
                wrong.append(f"{a!r} mod {c!r}: {found!r}, not {wanted!r}")
    return wrong


def test_remainders_of_doubles() -> None:
    """Every quotient up to 2^2098, and subnormal numbers, as they are divided as integers."""
    assert _remainders("double", 61, _fmod) == []


@pytest.mark.full
def test_many_remainders_of_doubles() -> None:
    assert _remainders("double", 7, _fmod) == []


def test_the_references_of_remainders() -> None:
    """NumPy's and Python's own, of which the reference engine uses the first."""
    values = _operands(KINDS["double"], 61).tolist()
    with np.errstate(all="ignore"):
        for a in values:
            for c in values:
                wanted, found = _fmod(a, c), float(np.fmod(a, c))
                assert found == wanted or (math.isnan(found) and math.isnan(wanted)), (a, c)


def test_remainders_with_dynamic_dims() -> None:
    graph = Graph(io_data_type="double", compute_data_type="double")
    n = graph.dynamic("n", range=(1, 64))
    x, y = graph.tensor(dims=(n, 3)), graph.tensor(dims=(1, 3))
    z = graph.mod(x, y).set_output()
    s = graph.sin(x).set_output()
    plan = graph.build("cpu")
    rng = np.random.default_rng(1)
    for rows in (1, 7, 33):
        a, c = rng.random((rows, 3)) * 1e200, rng.random((1, 3))
        results = plan.run({x: a, y: c})
        assert (results[z.uid] == np.fmod(a, c)).all()
        assert np.allclose(results[s.uid], np.sin(a), rtol=1e-15, atol=0)


def test_a_rounded_angle_of_many_turns_is_any_angle() -> None:
    """Verification took the ends of the angle's range for all of it."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(64,))
    y = graph.sin(graph.mul(x, 1e30)).set_output()
    frozen = graph.freeze()
    found = expect(frozen, {x.uid: np.linspace(0.51, 1.97, 64, dtype=np.float32)})
    assert (found.high[y.uid] - found.low[y.uid] >= 3.8).all()


def test_sines_of_indices_on_gfx9() -> None:
    """Emulated: the compiler computed them by code for the CPU, off by 0.05 (W-134)."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    indices = graph.gen_index(graph.tensor(dims=(64, 3, 2)), axis=0)
    angles = graph.mul(indices, graph.scalar(12345.678)).set_output()
    graph.sin(angles).set_output()
    check_emulated(graph)
