# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every block of code of the pages runs as it stands there, from the top to the end of each page.

Python runs in one namespace for each page; of shell blocks the commands of this package run. What
stands under ``<!-- output -->`` is what the block above it prints; what stands under
``<!-- file: NAME -->`` is a file for the blocks below it.  A block that cannot run here has a
remark before it: ``<!-- not run: reason -->``.
"""

from __future__ import annotations

import contextlib
import glob
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.provider.cli.main import main
from hipdnn_iree.provider.sweep.schema import (
    CaseEntry,
    NodeEntry,
    SharedEntry,
    SuiteEntry,
    TensorEntry,
    keys,
)
from hipdnn_iree.provider.sweep.suite import read

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "cookbook").glob("*.md")])
NEEDS = {
    "cookbook/torch": ("torch",),
    "cookbook/onnx": ("onnxruntime", "onnx"),
    "custom-ops": ("torch",),
    "torch-compile": ("torch",),
}
"""Packages without which a page is skipped."""

_BLOCK = re.compile(
    r"^(?:<!-- (not run|output|file)(?:: (.*?))? -->\n)?```(\w*)\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
RUN = ("python", "sh", "console")


class Block(NamedTuple):
    """A block of code, with the remark before it."""

    remark: str
    why: str
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def runnable(page: Path) -> list[Block]:
    return [b for b in blocks(page) if b.language in RUN and b.remark != "not run"]


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the commands of a shell block; each has to be one of this package."""
    for line in block.code.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            assert words[0] == "hipdnn-iree", f"{line}: not a command of this package"
            files = (glob.glob(word) if "*" in word else [word] for word in words[1:])
            yield [word for found in files for word in found]


def text(out: io.TextIOWrapper) -> str:
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue().decode()


def settled(printed: str, why: str) -> str:
    """Return what is printed without what differs from run to run."""
    return re.sub(r"cache (hit|miss)", "cache", printed) if why == "cache" else printed


@pytest.mark.parametrize("page", [p for p in PAGES if runnable(p)], ids=name)
def test_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(name(page), ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    model = Graph("model", io_data_type="float")
    model.output(model.relu(model.tensor(dims=(4, 6), name="x")), name="y")
    for file in ("model.json", "graph.json", "graphs/one.json"):
        Path(file).parent.mkdir(exist_ok=True)
        model.save(file)
    names: dict[str, object] = {"graph": model, "x": np.ones((4, 6), np.float32)}
    printed = ""
    for block in blocks(page):
        if block.remark == "file":
            Path(block.why).write_text(block.code, encoding="utf-8")
        if block.remark == "output":
            assert settled(printed, block.why) == settled(block.code, block.why)
        if block.remark == "not run" or block.language not in RUN:
            continue
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # some write bytes
        with contextlib.redirect_stdout(out):
            if block.language == "python":
                exec(compile(block.code, page.name, "exec"), names)
            else:
                for words in commands(block):
                    with pytest.raises(SystemExit) as ended:
                        main(words)
                    assert ended.value.code in (0, None), f"{words}: {text(out)}"
        printed = text(out)


def test_suites_that_are_shown_can_be_read() -> None:
    shown = [b.code for b in blocks(DOCS / "suites.md") if b.language == "yaml"]
    counts = [len(read(text, source="suites.md").cases) for text in shown]
    assert counts == [7, 2, 20]


@pytest.mark.parametrize(
    ("heading", "entry"),
    [
        ("key of a file", keys(SuiteEntry).keys() - keys(SharedEntry).keys()),
        ("shared key", keys(SharedEntry).keys()),
        ("key of a case", keys(CaseEntry).keys() - keys(SharedEntry).keys()),
        ("key of a node", keys(NodeEntry).keys()),
        ("key of a tensor", keys(TensorEntry).keys()),
    ],
)
def test_the_page_of_suites_has_all_keys(heading: str, entry: set[str]) -> None:
    page = (DOCS / "suites.md").read_text(encoding="utf-8")
    table = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    told = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    assert {word for cell in told for word in re.findall(r"`(\w+)`", cell)} == entry


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_block_that_does_not_run_says_why(page: Path) -> None:
    skipped = [b for b in blocks(page) if b.remark == "not run"]
    assert all(len(b.why) > 9 for b in skipped)
    fences = re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(blocks(page)), "a block is not recognised"


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("```python\nassert 1 == 2\n```\n", AssertionError),
        ("```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```\n", AssertionError),
        ("```sh\nls\n```\n", AssertionError),
        ("```sh\nhipdnn-iree show nothing.json\n```\n", AssertionError),
        (
            "<!-- file: a.json -->\n```json\n{}\n```\n\n```sh\nhipdnn-iree show a.json\n```\n",
            AssertionError,
        ),
    ],
)
def test_a_wrong_page_fails(
    written: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(written, encoding="utf-8")
    monkeypatch.setitem(globals(), "DOCS", tmp_path)
    with pytest.raises(error):
        test_a_page_runs(page, tmp_path, monkeypatch)
