# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Suites whose entries stand for many cases: axes, expressions, draws, files of files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.provider.sweep import expand, sources
from hipdnn_iree.provider.sweep.expressions import ExpressionError, evaluate, names_in
from hipdnn_iree.provider.sweep.listing import COLUMNS, cells, listed
from hipdnn_iree.provider.sweep.sources import read_all
from hipdnn_iree.provider.sweep.suite import Case, read
from hipdnn_iree.provider.sweep.targets import narrowed, within

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"n": 4, "h": 7, "layout": "contiguous", "flag": True, "f": 1.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * (n + h) - 1", 21),
        ("h // 2 + h % 2", 4),
        ("-h", -7),
        ("n / 2", 2),
        ("h / 2", 3.5),
        ("max(n, h, 5) - min(n, h)", 3),
        ("1 < n <= 4 and not h == n", True),
        ("n > h or flag", True),
        ("layout == 'contiguous'", True),
        ("n in [1, 4] and h not in (1, 2)", True),
        ("3 if n > h else 5", 5),
        ("f * 2", 3.0),
    ],
)
def test_expressions(text: str, value: object) -> None:
    found = evaluate(text, NAMES)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n ** 9", r"only \+ - \* / // % are allowed"),
        ("n.bit_length()", "min and max"),
        ("__import__('os')", "only min and max"),
        ("[x for x in n]", "is not allowed"),
        ("n[0]", "is not allowed"),
        ("lambda: n", "no expression"),
        ("'a' * 9", "is no number"),
        ("layout + 1", "is no number"),
        ("max(n)", "two or more"),
        ("n << 3", "only"),
        ("n < layout", "not supported"),
        ("n // 0", "by zero"),
        ("9" * 30, "too large"),
        ("9e300 * 9e300", "too large"),
        ("n * " * 60 + "n", "no expression"),
        ("(" * 120 + ")" * 120, "no expression"),
        ("n; h", "no expression"),
        ("height", "height, which is no axis"),
    ],
)
def test_what_is_no_expression(text: str, why: str) -> None:
    with pytest.raises(ExpressionError, match=why):
        evaluate(text, NAMES)


def test_an_unknown_name_has_a_hint() -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate("2 * layot", NAMES)
    assert caught.value.hint == "did you mean layout?"
    assert names_in("max(n, 2 * h)") == {"n", "h"}
    assert names_in("3x3-conv, no") == frozenset()


AXES = """
name: net
sets:
  stages: [[a, 8, 6], [b, 16, 5]]
  batches: [1, 3]
cases:
  - for: {"stage c, hw": stages, n: batches, f: {from: 1, to: 5, step: 2}}
    let: {pad: f // 2}
    where: f * c <= 40
    cases:
      - {name: "{stage}_conv", op: conv_fprop, x: [n, c, hw, hw], w: [2 * c, c, f, f], padding: pad}
  - name: linear
    for: {m: {from: 1, to: 27, times: 3}, act: [relu, gelu]}
    where: [m != 9, "not (m == 1 and act == 'gelu')"]
    tags: [fused, "with_{act}"]
    nodes:
      - {op: matmul, in: [[m, 4], [4, 2 * m]], out: y}
      - {op: act, in: y, out: z}
  - {name: plain, op: relu, x: [3]}
"""


def test_axes_multiply() -> None:
    cases = {case.name: case for case in read(AXES).cases}
    expected = {
        f"net.{stage}_conv_n{n}_f{f}": (n, c, hw, f)
        for stage, c, hw in (("a", 8, 6), ("b", 16, 5))
        for n in (1, 3)
        for f in (1, 3, 5)
        if f * c <= 40
    }
    convolutions = {name: case for name, case in cases.items() if "conv" in name}
    assert convolutions.keys() == expected.keys()
    for name, (n, c, hw, f) in expected.items():
        g = Graph(io_data_type="float", compute_data_type="float")
        x, w = g.tensor(dims=(n, c, hw, hw)), g.tensor(dims=(2 * c, c, f, f))
        g.conv_fprop(x, w, padding=f // 2).set_output()
        assert convolutions[name].freeze() == g.freeze()
        assert convolutions[name].op == "conv_fprop"
        assert convolutions[name].source == "suite:11"
    linear = [name for name in cases if "linear" in name]
    assert linear == [
        *("net.linear_m1_relu", "net.linear_m3_relu", "net.linear_m3_gelu"),
        *("net.linear_m27_relu", "net.linear_m27_gelu"),
    ]
    assert cases[linear[-1]].tags == ("fused", "with_gelu")
    assert cases[linear[-1]].op == "matmul+gelu"
    assert "net.plain" in cases


def test_values_of_axes() -> None:
    """Rows without a label, lists, truth values, and values that follow from earlier axes."""
    text = """
cases:
  - name: conv
    for: {h: [4, 5], "k w": [[2, h], [2 * h, 3]], pads: [[1, 2], [0, 0]], mirror: [true, false]}
    op: conv_fprop
    x: [1, 2, h, w]
    w: [k, 2, 1, 1]
    padding: pads
    conv_mode: "'convolution' if mirror else 'cross_correlation'"
"""
    with pytest.raises(FormatError, match=r"\[AXIS-01\] got w; wanted an axis with another name"):
        read(text)
    suite = read(text.replace("k w", "k v").replace("h, w]", "h, v]"))
    names = [case.name for case in suite.cases]
    assert len(names) == 16
    assert names[:3] == [
        "conv_h4_k2_v4_pads1x2_mirror",
        "conv_h4_k2_v4_pads1x2_no_mirror",
        "conv_h4_k2_v4_pads0x0_mirror",
    ]
    last = suite.cases[-1].freeze()
    assert [last.spec(uid).dims for uid in last.inputs] == [(1, 2, 5, 3), (10, 2, 1, 1)]


def test_layouts_types_and_targets_are_axes() -> None:
    text = """
dtypes: {cpu: float bfloat16, gfx9: [half, bfloat16]}
cases:
  - name: conv
    layouts: [contiguous, channels_last]
    tensors:
      x: [1, 4, 5, 6]
      w: [8, 4, 3, 3]
      b: [1, 8, 1, 1]
      own: {dims: [1, 8, 3, 4], order: [3, 2, 1, 0]}
    nodes:
      - {op: conv_fprop, in: [x, w], out: y}
      - {op: add, in: [y, b], out: z}
      - {op: add, in: [z, own], out: r}
    results: {r: {dims: [1, 8, 3, 4]}}
  - {name: limited, targets: [gfx942, cpu], op: relu, x: [3]}
"""
    suite = read(text)
    first, last, limited = suite.cases
    assert (first.name, last.name, first.tags, last.tags) == (
        "conv_nchw",
        "conv_nhwc",
        (),
        ("nhwc",),
    )
    frozen = last.freeze()
    strides = {
        frozen.spec(u).name: frozen.spec(u).strides for u in (*frozen.inputs, *frozen.outputs)
    }
    assert strides == {
        "x": (120, 1, 24, 4),
        "w": (36, 1, 12, 4),
        "b": (8, 1, 1, 1),
        "own": (1, 1, 8, 24),
        "r": (96, 1, 32, 8),
    }
    found = {case.name: case.targets for case in suite.by_type()}
    assert found["conv_nchw half"] == ("gfx9",)
    assert found["conv_nchw bfloat16"] == ("cpu", "gfx9")
    assert found["limited half"] == ("gfx942",)
    for target, kinds in (("cpu", {"float", "bfloat16"}), ("gfx90a", {"half", "bfloat16"})):
        here = [case for case in suite.by_type(target) if case.name.startswith("conv")]
        assert {case.dtypes[0].json for case in here} == kinds
        assert len(here) == 4
    assert limited.serves("gfx942")
    assert limited.serves("mi300x")
    assert not limited.serves("gfx90a")
    assert [c.name for c in suite.by_type("gfx950") if "limited" in c.name] == []


def test_targets_of_families() -> None:
    assert within("mi300x", ["gfx9"])
    assert not within("cpu", ["gfx9", "cuda"])
    assert within("cpu:znver4", ["cpu"])
    assert narrowed(("gfx9", "cpu"), ("gfx942",)) == ("gfx942",)
    assert narrowed((), ("cpu",)) == ("cpu",)
    assert narrowed(("cpu",), ("cuda",)) is None


DRAWN = """
op: matmul
cases:
  - name: drawn
    random: {count: 40, seed: 5}
    for:
      m: {from: 1, to: 512, log: true}
      k: {from: 8, to: 512, step: 8}
      n: {from: 1, to: m}
      kind: [half, float]
    where: m * k < 40000
    dtypes: kind
    a: [m, k]
    b: [k, n]
"""


def dims(case: Case) -> list[tuple[int, ...]]:
    frozen = case.freeze()
    return [frozen.spec(uid).dims for uid in frozen.inputs]


def test_draws() -> None:
    suite = read(DRAWN)
    assert [case.name for case in suite.cases] == [f"matmul.drawn_{i:03}" for i in range(40)]
    found = [dims(case) for case in suite.cases]
    small = 0
    for (m, k), (_, n) in found:
        assert 1 <= n <= m <= 512
        assert k % 8 == 0
        assert m * k < 40000
        small += m < 23
    assert 8 <= small <= 32  # half of the logarithms are below 4.5
    assert {case.dtypes for case in suite.cases} == {(DataType.HALF,), (DataType.FLOAT,)}
    assert len({repr(each) for each in found}) > 35
    assert [dims(case) for case in read(DRAWN).cases] == found
    assert [dims(case) for case in read(DRAWN, seed=6).cases] != found
    few = read(DRAWN.replace("m * k < 40000", "m == 1 and k < 24 and kind == 'half'"))
    assert len(few.cases) == 2  # there are no more


MISTAKES = {
    "where: f * c <= 40": ("where: f * cc <= 40", "AXIS-03", "cc, which is no axis.*line 7"),
    "x: [n, c, hw, hw]": ("x: [n, c, hv, hw]", "AXIS-03", "got hv.*line 11"),
    "pad: f // 2": ("pad: f // 0", "AXIS-03", "by zero.*line 8"),
    "n: batches": ("n: batchs", "AXIS-02", r"got batchs.*did you mean batches\?; line 7"),
    "[b, 16, 5]": ("[b, 16]", "AXIS-02", "rows of 3 values"),
    "to: 5,": ("too: 5,", "AXIS-02", r"got too.*did you mean to\?"),
    "step: 2": ("step: 0", "AXIS-02", "step"),
    "to: 27, times: 3": ("to: 27, log: true", "AXIS-02", "times instead of log"),
    "act: [relu, gelu]": ("act: []", "AXIS-02", "a list of values"),
    "f: {from: 1": ("max: {from: 1", "AXIS-01", r"for: .* of suites \(max means a function of ex"),
    "let: {pad: f": ("let: {wide: f", "AXIS-01", r"let: .*got wide.*\(wide means .*; rename it; "),
    "let: {pad:": ("let: {x:", "AXIS-01", "let: .*got x; wanted an axis with another name"),
    "n: batches, f:": ("1n: batches, f:", "AXIS-01", r"for: .*no word of suites \(line 7\)"),
    "m: {from": ("y: {from", "AXIS-01", "another name"),
    "_conv\"": ("_conv_{m}\"", "AXIS-03", "m, which is no axis"),
    "let: {pad": ("let: [pad", None, ""),
}  # fmt: skip


def test_the_order_of_let_does_not_count() -> None:
    text = "cases: [{{for: {{n: [2, 3]}}, let: {{{}}}, name: a, op: relu, x: [n, p, f]}}]"
    one, other = (read(text.format(let)) for let in ("f: n + 2, p: f // 2", "p: f // 2, f: n + 2"))
    assert [dims(case) for case in one.cases] == [[(2, 2, 4)], [(3, 2, 5)]]
    assert [dims(case) for case in other.cases] == [dims(case) for case in one.cases]
    with pytest.raises(FormatError, match=r"AXIS-03\] got p, f; wanted .* not from each other"):
        read(text.format("p: f // 2, f: p"))


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_in_axes(what: str) -> None:
    instead, rule, text = MISTAKES[what]
    wrong = AXES.replace(what, instead)
    assert wrong != AXES
    with pytest.raises(FormatError) as caught:
        read(wrong)
    if rule is None:
        return
    assert rule in {p.rule for p in caught.value.problems} & expand.RULES.keys()
    assert re.search(text, str(caught.value)), str(caught.value)


def test_mistakes_elsewhere() -> None:
    for text, rule in (
        (DRAWN.replace("count: 40", "count: 0"), "AXIS-05"),
        (DRAWN.replace("{count: 40, seed: 5}", "many"), "AXIS-05"),
        (DRAWN.replace("m * k < 40000", "m < 0"), "AXIS-05"),
        ("for: {n: {from: 1, to: 999}, m: {from: 1, to: n}}\n"
         "where: n < m\ncases: [{name: a, op: relu, x: [n, m]}]", "AXIS-04"),
        ("cases: [{name: a, op: relu, x: [4, 4], layouts: [channel_last]}]", "AXIS-02"),
        ("cases: [{name: a, op: relu, x: [4], targets: gfx94}]", "BENCH-07"),
        ("cases: [{name: a, op: relu, x: [4], dtypes: {gfx9: halff}}]", "BENCH-05"),
        ("include: other.yaml", "BENCH-06"),
    ):  # fmt: skip
        with pytest.raises(FormatError) as caught:
            read(text)
        assert rule in {p.rule for p in caught.value.problems}, text


SIZES = {
    # Of the group of AXES: a table of 2 rows, times 2, times 3; a condition leaves that open.
    ("where: f * c <= 40", "let: {wide: f // 2}"): 12,
    ("where: f * c <= 40", "let: {wide: f // 2}\n    layouts: [contiguous, channels_last]"): 24,
    ("where: f * c <= 40", "let: {wide: f // 2}\n    dtypes: integers"): 48,
    ("where: f * c <= 40", "let: {wide: 1}\n    where: f * c <= 40"): None,
    ("let: {pad: f // 2}\n    where: f * c <= 40", "let: {pad: 1 // 0}"): 12,
    ("let: {pad: f // 2}\n    where: f * c <= 40", "let: {pad: 1 // (f - 3)}"): None,  # the second
    ("f: {from: 1, to: 5, step: 2}", "wide: {from: 1, to: 3}"): None,
}  # fmt: skip


@pytest.mark.parametrize("what", SIZES)
def test_an_entry_that_is_wrong_says_how_many_problems_it_stands_for(what: tuple[str, str]) -> None:
    text = AXES.replace("    let: {pad: f // 2}\n    where", "    where")
    if what[0].startswith("let"):
        text = AXES
    wrong = text.replace(*what)
    assert wrong != text
    suite = read(wrong, check="keep")
    (problem, *_) = next(case.broken for case in suite.cases if case.broken)
    told = re.search(r"the entry stands for (\d+) problems", problem.hint)
    assert (told and int(told[1])) == SIZES[what], problem


def test_the_page_lists_the_reserved_words() -> None:
    page = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    section = page.partition("## Reserved words")[2].partition("\n## ")[0]
    told = set(re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\|([^|]*)\|", section, re.M))))
    assert told == expand.RESERVED.keys()


BROKEN = """
dtypes: [float, int8]
cases:
  - {name: good, op: relu, x: [3]}
  - {name: dims, op: matmul, a: [2, 3], b: [4, 5]}
  - {name: op, op: rellu, x: [3]}
  - {name: types, op: layernorm, x: [2, 8], scale: [8], bias: [8]}
  - {name: axes, for: {n: nobody}, op: relu, x: [n]}
  - {name: good, op: relu, x: [4]}
  - 5
  - {name: last, op: relu, x: [5]}
"""


def test_broken_cases_are_kept() -> None:
    with pytest.raises(FormatError):
        read(BROKEN)
    suite = read(BROKEN, source="b.yaml", check="keep")
    found = {case.name: [p.rule for p in case.broken] for case in suite.by_type()}
    assert found == {
        "good float": [],
        "good int8": [],
        "dims float": ["MATMUL-02"],
        "dims int8": ["MATMUL-02"],
        "op": ["BENCH-03"],
        "types float": [],
        "types int8": found["types int8"],
        "axes": ["AXIS-02"],
        "good (again)": ["BENCH-02"],
        "case 6": ["BENCH-02"],
        "last float": [],
        "last int8": [],
    }
    assert found["types int8"]
    broken = {case.name: case for case in suite.by_type() if case.broken}
    assert all(
        "line " in str(p) for case in broken.values() for p in case.broken if case.name != "case 6"
    )
    assert broken["axes"].source == "b.yaml:8"
    with pytest.raises(FormatError, match="nobody"):
        broken["axes"].freeze()
    rows = list(listed(suite))
    assert [row["case"] for row in rows if row["broken"]] == list(broken)
    assert rows[0] | {"digest": "", "source": ""} == {
        "case": "good float", "dtype": "float", "op": "relu", "tags": [], "targets": [],
        "source": "", "digest": "", "inputs": [[3]], "flops": 3, "bytes": 24, "broken": [],
    }  # fmt: skip
    assert all(len(cells(row)) == len(COLUMNS) for row in rows)
    assert str(cells(rows[2])[3]).startswith("invalid: dims")


def test_files_that_include_others(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("a", "b"):
        text = (
            f"name: {name}\ncases: [{{name: x, op: relu, x: [3]}}, {{name: y, op: gelu, x: [4]}}]"
        )
        (tmp_path / "parts" / f"{name}.yaml").write_text(text, encoding="utf-8")
    whole = "include: [parts/*.yaml]\ncases: [{name: own, op: relu, x: [5]}]"
    (tmp_path / "whole.yaml").write_text(whole, encoding="utf-8")
    suite = read(whole, folder=tmp_path)
    assert [case.name for case in suite.cases] == ["a.x", "a.y", "b.x", "b.y", "own"]
    assert suite.cases[2].source == f"{tmp_path}/parts/b.yaml:2"
    assert [c.name for c in read("include: parts/b.yaml", folder=tmp_path).cases] == ["b.x", "b.y"]
    (tmp_path / "parts" / "c.yaml").write_text("include: ../whole.yaml", encoding="utf-8")
    with pytest.raises(FormatError, match=r"\[BENCH-06\].*do not include each other"):
        read(whole, folder=tmp_path)
    with pytest.raises(FormatError, match=r"did you mean b\.yaml"):
        read("include: parts/bb.yaml", folder=tmp_path)


def graph_files(folder: Path) -> Graph:
    folder.mkdir()
    g = Graph(io_data_type="half", compute_data_type="float")
    g.relu(g.tensor(dims=(4, 5))).set_output()
    (folder / "one.json").write_text(g.to_json(), encoding="utf-8")
    (folder / "inner").mkdir()
    recorded = ROOT / "tests" / "data" / "opgraphs" / "bn_inference_f16_f32stats_nchw.bin"
    (folder / "inner" / "two.bin").write_bytes(recorded.read_bytes())
    (folder / "damaged.json").write_text(g.to_json()[:-30], encoding="utf-8")
    (folder / "notes.md").write_text("no graph", encoding="utf-8")
    return g


def test_everything_that_can_be_named(tmp_path: Path) -> None:
    g = graph_files(tmp_path / "graphs")
    (tmp_path / "s.yaml").write_text(
        "cases: [{name: one.json, op: relu, x: [3]}]", encoding="utf-8"
    )
    suite = read_all([str(tmp_path / "s.yaml"), str(tmp_path / "graphs"), "ops/cumsum"])
    names = [case.name for case in suite.cases]
    assert names[:4] == ["s.one.json", "damaged.json", "inner/two.bin", "graphs.one.json"]
    assert names[4].startswith("cumsum.")
    assert suite.cases[4].source.startswith("ops/cumsum.yaml:")
    damaged, two, one = suite.cases[1:4]
    assert one.freeze() == g.freeze()
    assert one.dtypes == two.dtypes == (DataType.HALF,)
    assert [node.op.NAME for node in two.freeze().nodes] == ["batchnorm_inference_variance_ext"]
    assert damaged.broken
    with pytest.raises(FormatError):
        read_all([str(tmp_path / "graphs")], check=True)
    for text, rule, hint in (
        ("ops/cumsums", "SOURCE-01", "ops/cumsum"),
        ("", "SOURCE-01", ""),
        ("a\0b", "SOURCE-01", ""),
        (str(tmp_path / "empty"), "SOURCE-02", ""),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(FormatError) as caught:
            read_all([text])
        (problem,) = caught.value.problems
        assert problem.rule == rule
        assert problem.rule in sources.RULES
        assert hint in problem.hint
