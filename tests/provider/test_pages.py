# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pages of commands: what they say, that they need nothing, and that names are only text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.inspect import Dispatch, Inspection, Notice
from hipdnn_iree.jit.inspect.config import Config
from hipdnn_iree.jit.inspect.isa import Kernel
from hipdnn_iree.jit.inspect.machine import limits_of, sheet_of
from hipdnn_iree.jit.inspect.occupancy import occupancy
from hipdnn_iree.jit.inspect.roofline import roofline
from hipdnn_iree.jit.work import Work
from hipdnn_iree.provider.pages.bench_page import bench_page
from hipdnn_iree.provider.pages.charts import Bar, Point, Roof, bars
from hipdnn_iree.provider.pages.charts import roofline as roofline_chart
from hipdnn_iree.provider.pages.explain_page import explain_page
from hipdnn_iree.provider.pages.inspect_page import inspect_page
from hipdnn_iree.provider.pages.markup import visible
from hipdnn_iree.provider.pages.page import document, facts, fragment, section, table
from hipdnn_iree.provider.pages.shown import uncoloured
from hipdnn_iree.provider.pages.tune_page import tune_page
from page_parts import NASTY, Parsed, needs_nothing


def cells(page: Parsed) -> list[str]:
    return page.texts("td")


# ---------------------------------------------------------------------------- parts


def test_a_page_has_its_policy_and_no_script_of_others() -> None:
    page = document(NASTY, table("t", ["a"], [[NASTY]]), script="let x = 1;", data={"x": NASTY})
    needs_nothing(page)
    found = Parsed(page)
    data, script = found.texts("script")
    assert json.loads(data) == {"x": NASTY}
    assert script == "let x = 1;"
    assert found.texts("h1") == [visible(NASTY)]
    assert cells(found) == [visible(NASTY)]
    assert Parsed(document("t")).of("script") == []


def test_tables() -> None:
    assert table("t", ["a"], []) == ""
    found = Parsed(table("t", ["name", "n"], [["x", 1234567], ["y", 0.00123456], ["z", None]]))
    assert found.texts("summary") == ["t (3)"]
    assert cells(found) == ["x", "1,234,567", "y", "0.001235", "z", ""]
    assert [a.get("class") for a in found.of("td")] == [None, "n"] * 3
    assert "open" in found.of("details")[0]
    assert "open" not in Parsed(table("t", ["a"], [["x"]], fold=True)).of("details")[0]


def test_facts_and_sections_that_say_nothing_are_left_out() -> None:
    found = Parsed(facts([("a", 1), ("b", None), ("c", ""), ("d", False), ("e", 0)]))
    assert found.texts("th") == ["a", "d", "e"]
    assert cells(found) == ["1", "no", "0"]
    assert section("title", None, "") == ""
    assert facts([("a", None)]) == ""


def test_a_fragment_touches_nothing_around_it() -> None:
    """A notebook's own elements must not be styled by what it shows."""
    (style,) = Parsed(fragment("x")).texts("style")
    depth, outside = 0, ""
    for c in style:
        depth += {"{": 1, "}": -1}.get(c, 0)
        outside += c if not depth and c != "}" else ""
    assert depth == 0
    outside = re.sub(r"/\*.*?\*/", "", outside)
    rules = [one for one in outside.split("\n") if one.strip()]
    assert rules
    assert all(".hipdnn-iree" in rule or "svg.diagram" in rule for rule in rules)


# ---------------------------------------------------------------------------- charts


def test_bars_start_at_zero_or_at_the_baseline() -> None:
    rows = [Bar(label="a", value=2.0, low=1.5, high=2.5, text="2"), Bar(label="b", value=1.0)]
    found = Parsed(bars("t", rows, unit="µs", baseline=1.0, name="base"))
    assert len(found.of("g", "bar")) == 2
    assert len(found.of("path", "spread")) == 1
    assert len(found.of("path", "guide")) == 1
    widths = [_length(a["d"]) for a in found.of("path", "s0")]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.02)
    # On the axis of ratios what is as fast as the baseline has no length.
    found = Parsed(bars("t", rows, unit="×", baseline=1.0, ratio=True))
    widths = [_length(a["d"]) for a in found.of("path", "s0")]
    assert widths[0] > 50
    assert widths[1] == pytest.approx(1, abs=0.1)


def _length(path: str | None) -> float:
    start, end = str(path).removeprefix("M").split("H")
    return float(end) - float(start.split()[0])


@pytest.mark.parametrize("rows", [[], [Bar(label="no time", text="declined")]])
def test_without_values_there_is_no_chart(rows: list[Bar]) -> None:
    assert bars("t", rows, unit="µs") == ""
    assert roofline_chart("t", [], [Roof(label="r", peak=1.0)], 1.0) == ""


@pytest.mark.parametrize("value", [3e-9, 0.7, 12.0, 3.4e7])
def test_axes_have_some_ticks_at_any_size(value: float) -> None:
    for ratio in (False, True):
        found = Parsed(bars("t", [Bar(label="a", value=value)], unit="u", baseline=value / 3,
                            ratio=ratio))  # fmt: skip
        assert 1 <= len(found.of("path", "grid")) <= 12


def test_the_roofline_has_a_point_for_each_and_roofs() -> None:
    points = [Point(x=1.0, y=1e9, label="#0"), Point(x=500.0, y=1e12, label="#1", series=1)]
    roofs = [Roof(label="matrix", peak=2e12), Roof(label="vector", peak=1e11)]
    found = Parsed(roofline_chart("t", points, roofs, 1e10))
    assert len(found.of("g", "point")) == 2
    assert len(found.of("path", "roof")) == 2
    assert {"#0", "#1", "matrix", "vector"} <= set(found.texts("text"))


# ---------------------------------------------------------------------------- inspect


def inspected(name: str) -> tuple[Inspection, Graph]:
    g = Graph(name, io_data_type="float")
    y = g.matmul(g.tensor(dims=(64, 64)), g.tensor(dims=(64, 64)), name=name)
    g.relu(y, name="relu").set_output()
    target = Target.parse("gfx942")
    sheet, limits = sheet_of(target), limits_of(target)
    assert sheet is not None
    assert limits is not None
    kernel = Kernel(name="k", mfma={"v_mfma_f32_16x16x4_f32": 8}, vgprs=64, sgprs=32, threads=256)
    work = Work(2 * 64**3, 64 * 64, 3 * 4 * 64 * 64)
    dispatch = Dispatch(
        name="main$async_dispatch_0_matmul",
        nodes=(name, "relu"),
        places=(0, 1),
        reads=("64x64xf32", "64x64xf32"),
        writes=("64x64xf32",),
        at_load=False,
        work=work,
        config=Config(pipeline="TileAndFuse", workgroup_size=(256, 1, 1)),
        kernel=kernel,
        occupancy=occupancy(kernel, limits),
        roofline=roofline(work, sheet, "f32"),
    )
    counts = {"dispatches": 1, "fills": 0, "copies": 0, "transient_bytes": 0}
    notice = Notice(
        rule="LOOK-01", text=f"about {name}", nodes=(name,), dispatches=("k",), hint="a hint"
    )
    found = Inspection(
        target=target,
        sheet=sheet,
        statistics=counts,
        dispatches=(dispatch,),
        work=work,
        least=roofline(work, sheet, "f32"),
        notices=(notice,),
    )
    return found, g


def test_the_page_of_inspect() -> None:
    found, graph = inspected("product")
    page = inspect_page(found, graph.freeze())
    needs_nothing(page)
    parsed = Parsed(page)
    assert parsed.texts("h2") == ["Graph", "Dispatches", "Roofline", "Warnings"]
    for text in ("#0", "product, relu", "64x64xf32", "TileAndFuse", "MI300X", "LOOK-01", "v_mfma"):
        assert text in parsed.text
    assert len(parsed.of("g", "node")) == 2
    assert {a["data-tint"] for a in parsed.of("g", "node")} == {"0"}
    assert len(parsed.of("g", "point")) == 1
    assert len(parsed.of("g", "bar")) == 1


def test_names_on_the_page_of_inspect_are_text() -> None:
    found, graph = inspected(NASTY)
    needs_nothing(inspect_page(found, graph.freeze()))
    assert Parsed(inspect_page(found, graph.freeze())).of("script") == []


# ---------------------------------------------------------------------------- tune, bench


def tuned(**changes: Any) -> dict[str, Any]:
    def row(engine: str, median: float | None, status: str = "ok", **knobs: str) -> dict[str, Any]:
        times = {"median_us": median, "low_us": median and median * 0.9,
                 "high_us": median and median * 1.2, "noise": median and 0.15}  # fmt: skip
        return {"engine": engine, "engine_id": 1, "knobs": knobs, "status": status,
                "reason": "" if median else NASTY, "samples": 7 if median else 0,
                "max_rel_error": 1e-7, "build_s": 0.5, **times}  # fmt: skip

    rows = [row("IREE_JIT_ENGINE", 20.0), row("IREE_JIT_ENGINE", 10.0, strategy="direct"),
            row("TORCH_CPU_ENGINE", 15.0), row("B", None, "wrong")]  # fmt: skip
    one = {"file": NASTY, "graph": {"name": NASTY, "digest": "d" * 64}, "target": "cpu",
           "winner": rows[1], "rows": rows, "seconds": 3.0, "stored": True,
           "emulated": False, **changes}  # fmt: skip
    return {"graphs": [one, {"file": "no.json", "error": {"message": "it <fails>"}}],
            "winners": "/w", "imported": None, "exported": None}  # fmt: skip


def test_the_page_of_tune() -> None:
    page = tune_page(tuned())
    needs_nothing(page)
    parsed = Parsed(page)
    assert len(parsed.of("g", "bar")) == 3
    assert len(parsed.of("path", "spread")) == 3
    assert len(parsed.of("path", "guide")) == 1
    # Against the fastest engine with its defaults, which is PyTorch's here.
    assert "10 µs, ×0.67, winner" in parsed.text
    assert "20 µs, ×1.33" in parsed.text
    assert [a.get("class") for a in parsed.of("span")].count("status-winner") == 1
    assert "it <fails>" in parsed.text


def test_emulation_has_no_bars() -> None:
    about = tuned(emulated=True, winner=None)
    for row in about["graphs"][0]["rows"]:
        row |= {"median_us": None, "low_us": None, "high_us": None, "noise": None}
    parsed = Parsed(tune_page(about))
    assert parsed.of("g", "bar") == []
    assert "emulated: there are no times" in parsed.text


def benched() -> dict[str, Any]:
    def row(median: float, ok: bool = True) -> dict[str, Any]:
        return {"engine": "E", "knobs": {}, "median_us": median, "best_us": median * 0.9,
                "spread": 0.05, "calls": 100, "rounds_us": [median], "ok": ok,
                "max_rel_error": 1e-7, "dispatches": 1, "transient_bytes": 64}  # fmt: skip

    cases = [
        {"name": NASTY, "tags": ["fused"], "digest": "d", "ratio": 0.5, "ratio_best": 0.5,
         "engines": {"iree": row(10.0), "torch": row(20.0)}},
        {"name": "wrong", "tags": [], "digest": "d", "ratio": 2.0, "ratio_best": 2.0,
         "engines": {"iree": row(40.0, ok=False), "torch": row(20.0)}},
        {"name": "declined", "tags": [], "digest": "d", "ratio": None, "ratio_best": None,
         "engines": {"iree": {"declined": [{"rule": "CONV-01"}]}, "torch": row(5.0)}},
    ]  # fmt: skip
    return {
        "title": "small ones", "target": "cpu", "machine": {"cpu": "x", "vector": ["avx2"]},
        "versions": {"hipdnn-iree": "0.1"}, "threads": 1, "seconds": 0.1, "realtime": False,
        "engines": ["iree", "torch"], "baseline": "torch", "cases": cases, "geomean": 1.0,
        "geomean_best": 1.0, "geomean_fused": 0.5, "geomean_fused_best": 0.5,
        "worst": {"ratio": 2.0, "name": "wrong"}, "ok": False,
    }  # fmt: skip


def test_the_page_of_bench() -> None:
    page = bench_page(benched())
    needs_nothing(page)
    parsed = Parsed(page)
    assert len(parsed.of("g", "heading")) == 3
    assert len(parsed.of("g", "bar")) == 6
    assert len(parsed.of("path", "spread")) == 5  # not of the one that declined
    assert len(parsed.of("path", "guide")) == 1
    for text in ("10 µs ±5 %", "WRONG", "declined CONV-01", "NOT all are right", "wrong: 2.00"):
        assert text in parsed.text


def test_bench_without_a_baseline() -> None:
    data = benched() | {"baseline": None, "engines": ["iree"], "worst": None, "geomean": None}
    data["geomean_fused"] = None
    data["cases"] = data["cases"][:1]
    parsed = Parsed(bench_page(data))
    assert parsed.of("g", "bar") == []
    assert parsed.texts("h2") == ["Result", "Cases", "Conditions"]


# ---------------------------------------------------------------------------- explain


def explained(chosen: bool) -> dict[str, Any]:
    def candidate(alias: str, us: float | None, **more: Any) -> dict[str, Any]:
        estimate = us and {"us": us, "terms_us": {"memory": us}}
        return {"engine": f"{alias.upper()}_ENGINE", "alias": alias, "engine_id": 1,
                "served": us is not None, "default": True, "last_resort": False, "reasons": [],
                "knobs": [], "estimated_us": us, "measured_us": None, "estimate": estimate,
                "parts": None, "measured": [], **more}  # fmt: skip

    known = {"median_us": 12.0, "low_us": 11.0, "high_us": 14.0, "samples": 5, "when": "today",
             "knobs": {}}  # fmt: skip
    knob = {"name": "opt", "choices": ["O1", "O2"], "default": "O2", "help": ""}
    return {
        "graph": {"name": NASTY, "digest": "d" * 64},
        "target": "cpu",
        "chosen": {"engine": "IREE", "knobs": {"opt": "O1"}, "policy": "tuned"} if chosen else None,
        "why": "because",
        "policies": ["config", "tuned"],
        "candidates": [
            candidate("iree", 10.0, measured=[known], knobs=[knob]),
            candidate("torch", None, reasons=[{"text": "[X-01] <no>"}]),
            candidate("reference", 1e6, last_resort=True),
        ],
        "cache": None,
        "plan": None,
    }


@pytest.mark.parametrize("chosen", [True, False])
def test_the_page_of_explain(chosen: bool) -> None:
    _, graph = inspected("product")
    page = explain_page(explained(chosen), uncoloured(graph.freeze(), "a remark"), ["direct <b>"])
    needs_nothing(page)
    parsed = Parsed(page)
    assert parsed.texts("h2") == ["Engines", "Graph", "Code"]
    assert ("IREE with opt=O1 by tuned: because" if chosen else "none: because") in parsed.text
    # An estimate and a measurement; what is only a last resort would make both invisible.
    assert len(parsed.of("g", "bar")) == 2
    assert len(parsed.of("path", "spread")) == 1
    assert parsed.texts("pre") == ["direct <b>"]
    for text in ("O1", "O2 (default)", "[X-01] <no>", "a remark"):
        assert text in parsed.text
