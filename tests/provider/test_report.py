# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a report says of a run, and the page that it makes."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import shlex
from html.parser import HTMLParser
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.provider.pages.markup import visible
from hipdnn_iree.provider.sweep.compare_runs import compare_runs
from hipdnn_iree.provider.sweep.export import exported, format_of
from hipdnn_iree.provider.sweep.report import Report
from hipdnn_iree.provider.sweep.report_columns import COLUMNS
from hipdnn_iree.provider.sweep.report_html import page
from hipdnn_iree.provider.sweep.row import Row, Run
from sweep_runs import row, run_of, timed_rows

NASTY = "a</script><script>alert(1)</script><!-- \u2028 'q' \"q\" & \x1b[31m"


class Page(HTMLParser):
    """The parts of a page that a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inner: dict[str, list[str]] = {"script": [], "style": [], "code": [], "a": []}
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag in self.inner:
            self.inner[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside in self.inner:
            self.inner[inside][-1] += data
        if inside not in ("script", "style"):
            self.text += data

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as the page's script decodes them."""
        data = json.loads(self.inner["script"][0])
        columns = {
            c["name"]: c.get("values") or [c["texts"][i] for i in c["at"]] for c in data["columns"]
        }
        return [{name: values[i] for name, values in columns.items()} for i in range(data["rows"])]


def mixed() -> list[Row]:
    rows = [
        row("good", op="matmul", rounds_us=[10.0] * 5),
        row("good", op="matmul", engine="torch", rounds_us=[20.0] * 5),
        row("slow", op="conv_fprop", rounds_us=[80.0, 84.0, 78.0]),
        row("slow", op="conv_fprop", engine="torch", rounds_us=[20.0, 20.0, 20.0]),
        row("wrong one", op="sdpa", status="wrong", of_bound=250.0, rounds_us=[1.0] * 3),
        row("wrong one", op="sdpa", engine="torch", rounds_us=[9.0] * 3),
        row("no", op="sdpa", status="declined", rules=["SDPA-03"], dtype="half"),
        row(NASTY, op="sdpa", status="crash", detail=NASTY),
        row("gpu", op="matmul", target="gfx942", device="none"),
    ]
    return rows


def test_the_facts() -> None:
    data = Report(run_of(mixed()), path="r.jsonl").as_dict()
    assert data["counts"] == {"ok": 6, "wrong": 1, "declined": 1, "crash": 1}
    assert (data["run"], data["rows"], data["cut"], data["baseline"]) == ("r.jsonl", 9, None, None)
    # Half the time, and four times: what is wrong does not count.
    assert data["geomean"] == {"iree/torch": pytest.approx(2**0.5)}
    (pair,) = data["pairs"]
    assert (pair["rows"], pair["faster"], pair["above_3"], pair["worst"]) == (2, 1, 1, 4)
    assert [one["name"] for one in data["by"]["op"]] == ["conv_fprop", "matmul", "sdpa"]
    sdpa = data["by"]["op"][2]
    assert sdpa["counts"] == {"ok": 1, "wrong": 1, "declined": 1, "crash": 1}
    assert [one["case"] for one in data["worst"]["broken"]] == ["wrong one", NASTY]
    assert data["worst"]["errors"][0]["of_bound"] == 250
    assert [(one["case"], one["ratio"]) for one in data["worst"]["ratios"]] == [("slow", 4)]
    json.dumps(data, allow_nan=False)


def test_the_longest_times_need_no_second_engine() -> None:
    rows = [
        row("short", rounds_us=[10.0] * 3),
        row("long", rounds_us=[90.0] * 3),
        row("wrong one", status="wrong", rounds_us=[500.0] * 3),
        row("not timed"),
    ]
    report = Report(run_of(rows))
    told = report.as_dict()["worst"]
    assert [(one["case"], one["median_us"], one["roofline"]) for one in told["times"]] == [
        ("long", 90, 0.4),
        ("short", 10, 0.4),
    ]
    assert told["ratios"] == []
    read = page(report)
    assert read.index("longest times") < read.index("of the roofline")
    assert "longest times" not in page(Report(run_of([row("not timed")])))


def test_what_is_invalid_stands_below_what_is_broken_with_its_reason() -> None:
    invalid = row("typo", status="invalid", rules=["AXIS-01"], detail="[AXIS-01] got wide")
    report = Report(run_of([invalid, *mixed()]))
    assert [one.case for one in report.broken()] == ["wrong one", NASTY, "typo"]
    told = report.as_dict()["worst"]["broken"][-1]
    assert (told["status"], told["detail"]) == ("invalid", "[AXIS-01] got wide")


def test_the_command_of_a_row() -> None:
    report = Report(run_of(mixed()))
    words = shlex.split(report.command(report.rows["slow|float|iree|cpu"]))
    assert words[:3] == ["hipdnn-iree", "sweep", "suite.yaml"]
    options = dict(zip(words[3::2], words[4::2], strict=False))
    assert (options["--engines"], options["--targets"]) == ("iree", "cpu")
    assert "--perf" in words
    # A pattern that matches this case alone, whatever is in its name.
    words = shlex.split(report.command(report.rows[f"{NASTY}|float|iree|cpu"]))
    assert re.search(words[words.index("--case") + 1], NASTY)
    assert not re.search(words[words.index("--case") + 1], f"{NASTY}x")
    assert "--perf" not in words
    emulated = row("x", target="gfx942", device="emulated", emulated=True)
    assert "--emulate" in shlex.split(Report(run_of([emulated])).command(emulated))


def test_what_a_report_fails_on() -> None:
    report = Report(run_of(mixed()))
    assert report.failed_on(["wrong"]) == ["wrong one|float|iree|cpu"]
    assert report.failed_on(["wrong", "declined"]) == [
        "wrong one|float|iree|cpu",
        "no|half|iree|cpu",
    ]
    assert report.failed_on([]) == []
    # With a baseline only what has become so.
    same = Report(run_of(mixed()), compare_runs(run_of(mixed()), [run_of(mixed())]))
    assert same.failed_on(["slower", "wrong", "declined", "gone", "crash"]) == []
    before = [one for one in mixed() if one.status != "crash"]
    worse = Report(run_of(mixed()), compare_runs(run_of(mixed()), [run_of(before)]))
    assert worse.failed_on(["crash"]) == [f"{NASTY}|float|iree|cpu"]


def test_nothing_to_report() -> None:
    report = Report(run_of([]))
    data = report.as_dict()
    assert (data["counts"], data["geomean"], data["rows"]) == ({}, {}, 0)
    assert Page(page(report)).rows == []


# ---------------------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def whole() -> tuple[str, Page]:
    before = timed_rows({"fast": 10.0, "slower": 30.0}, 0)
    after = timed_rows({"fast": 10.0, "slower": 30.0}, 1, slower={"slower|float|iree|cpu": 2.0})
    run = run_of([*mixed(), *after], cut="r.jsonl, line 14: the line is cut off")
    text = page(Report(run, compare_runs(run, [run_of(before)]), path="r.jsonl"))
    return text, Page(text)


def test_the_embedded_rows(whole: tuple[str, Page]) -> None:
    rows = whole[1].rows
    assert len(rows) == 13
    found = {(one["case"], one["engine"]): one for one in rows}
    slow = found["slow", "iree"]
    assert (slow["status"], slow["op"], slow["median_us"]) == ("ok", "conv_fprop", 80)
    assert (slow["ratio"], slow["against"], slow["roofline"]) == (4, "torch", 40)
    assert found["slow", "torch"]["ratio"] is None
    assert found["slower", "iree"]["verdict"] == "slower"
    assert found["slower", "iree"]["change"] == pytest.approx(2, rel=0.2)
    assert found["wrong one", "iree"]["of_bound"] == 250
    assert found["no", "iree"]["rules"] == "SDPA-03"
    assert found[NASTY, "iree"]["detail"] == NASTY
    assert all(one["command"].startswith("hipdnn-iree sweep ") for one in rows)
    # A column without a value is left out.
    assert "cold_us" not in rows[0]
    assert set(rows[0]) < {column.name for column in COLUMNS}


def test_what_is_read_without_a_script(whole: tuple[str, Page]) -> None:
    text = whole[1].text
    assert "the line is cut off" in text
    for caption in ("by op (3)", "by engine (2)", "what got worse (", "broken (2)"):
        assert caption in text
    codes = whole[1].inner["code"]
    assert any(shlex.quote("^slower$") in one for one in codes)
    # Units stand in the headings.
    assert {"before, µs", "now, µs", "error / bound", "95 % interval"} <= {
        line.strip() for line in re.findall(r"<th[^>]*>([^<]*)</th>", whole[0])
    }


def test_names_of_others_stay_text(whole: tuple[str, Page]) -> None:
    text, found = whole
    tags = {tag for tag, _ in found.elements}
    assert "script" in tags
    assert sum(tag == "script" for tag, _ in found.elements) == 2
    assert "alert(1)</script>" not in text
    assert visible(NASTY) in found.text  # control characters as escapes


def test_the_page_needs_no_network(whole: tuple[str, Page]) -> None:
    text, found = whole
    for _, attributes in found.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith("#")
    assert not re.search(r"url\(|@import", text)
    policy = next(a["content"] for t, a in found.elements if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for kind, inner in (("style", found.inner["style"][0]), ("script", found.inner["script"][1])):
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_links_lead_to_rows_and_filters(whole: tuple[str, Page]) -> None:
    found = whole[1]
    links = [attributes for tag, attributes in found.elements if tag == "a"]
    places = {m[1] for a in links if (m := re.fullmatch(r"#row-(\d+)", a["href"] or ""))}
    assert places
    assert all(int(place) < len(found.rows) for place in places)
    columns = set(found.rows[0])
    assert {a["data-filter"] for a in links if "data-filter" in a} <= columns
    # What the script looks for is there.
    wanted = set(re.findall(r'byId\("([\w-]+)"\)', found.inner["script"][1]))
    ids = {attributes.get("id") for _, attributes in found.elements}
    assert wanted <= ids


def test_ten_thousand_rows_are_small() -> None:
    draw = random.Random(1)
    rows = []
    for i in range(5000):
        case = f"resnet50.conv{i}.n{1 << i % 6}c{64 << i % 4}h56w56k128y3x3s1p1 half"
        for engine in ("iree", "torch"):
            rounds = [round(draw.uniform(100, 200), 2) for _ in range(3)]
            about: dict[str, Any] = {"suite": "suites/networks/resnet50.yaml", "tags": ["conv"]}
            digest = hashlib.sha256(case.encode()).hexdigest()
            rows.append(row(case, engine=engine, rounds_us=rounds, digest=digest, **about))
    assert len(page(Report(run_of(rows))).encode()) < 8e6


# ---------------------------------------------------------------------------- export


def test_csv() -> None:
    import csv
    import io

    run: Run = run_of(mixed())
    lines = list(csv.DictReader(io.StringIO(exported(run, "csv").decode())))
    assert len(lines) == 9
    by_key = {line["key"]: line for line in lines}
    slow = by_key["slow|float|iree|cpu"]
    assert (slow["times.median_us"], slow["check.method"]) == ("80.0", "float64")
    assert json.loads(slow["times.rounds_us"]) == [80, 84, 78]
    assert json.loads(by_key["no|half|iree|cpu"]["rules"]) == ["SDPA-03"]
    assert by_key["no|half|iree|cpu"]["times.median_us"] == ""
    assert by_key[f"{NASTY}|float|iree|cpu"]["detail"] == NASTY
    assert list(lines[0]) == list(csv.DictReader(io.StringIO(exported(run_of([]), "csv").decode()))
                                  .fieldnames or ())  # fmt: skip


def test_parquet() -> None:
    import io

    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(exported(run_of(mixed()), "parquet"))).to_pylist()
    assert [line["case"] for line in table] == [one.case for one in mixed()]
    assert table[2]["times.rounds_us"] == [80, 84, 78]
    assert table[8]["times.median_us"] is None


def test_formats() -> None:
    assert [format_of(name) for name in ("a.csv", "b.PARQUET", "c", "d.txt")] == [
        "csv",
        "parquet",
        "csv",
        "csv",
    ]
    with pytest.raises(SettingError, match="csv, parquet"):
        exported(run_of([]), "xls")
