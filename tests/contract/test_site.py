# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The documentation as a site: every page has a place, every method of Graph an entry.

Building it needs the extra ``docs``, which the extra ``dev`` does not contain; without it the build
is skipped, and what can be read from the sources is checked all the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.ops import OPS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = spec_from_file_location("site_hooks", ROOT / "tools" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_nav() -> set[str]:
    return set(re.findall(r"[\w./-]+\.md", CONFIG.partition("\nnav:\n")[2]))


def test_every_page_has_a_place(hooks: ModuleType) -> None:
    hidden = ("upstream/", "design/")
    pages = {p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")}
    made = {*hooks.OUTSIDE, *hooks.api_pages()}
    assert in_nav() == {page for page in pages if not page.startswith(hidden)} | made


def test_every_operation_has_an_entry(hooks: ModuleType) -> None:
    assert sorted(hooks.ops()) == sorted(OPS)
    text = hooks.api_pages()["api/operations.md"]
    assert all(f"::: hipdnn_iree.graph_api.ops.{op}.{op}\n" in text for op in OPS)


def test_links_out_of_the_site_become_text(hooks: ModuleType) -> None:
    text = "[a](b.md#c) [d](../e.md)\n```text\n[f](../g.md)\n```\n"
    found = hooks.relinked(text, lambda path: "" if path.startswith("..") else f"x/{path}")
    assert found == "[a](x/b.md#c) d\n```text\n[f](../g.md)\n```\n"


def test_the_address_of_the_repository_stands_in_one_place(hooks: ModuleType) -> None:
    config = SimpleNamespace(repo_url="")
    address = hooks.on_config(config).repo_url
    assert address.startswith("https://")
    texts = (*ROOT.glob("*.*"), *DOCS.rglob("*.md"), *(ROOT / "tools").rglob("*.py"))
    found = [p.name for p in texts if p.is_file() and address.encode() in p.read_bytes()]
    assert found == ["pyproject.toml"]


@pytest.mark.parametrize("path", sorted((DOCS / "images").iterdir()), ids=lambda p: p.name)
def test_a_picture_is_complete(path: Path) -> None:
    root = ET.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.findtext("{http://www.w3.org/2000/svg}title")
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "http" not in text, "a picture fetches nothing"
    shown = (page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert any(f"(images/{path.name})" in page for page in shown)


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # At the begin of a line: Material's banner about MkDocs 2 names a variable that ends so.
    assert not re.search(r"^WARNING", done.stderr, re.MULTILINE)
    pages = "".join(p.read_text(encoding="utf-8") for p in (tmp_path / "api").glob("*.html"))
    named = set(re.findall(r'id="hipdnn_iree[\w.]*\.(\w+)"', pages))
    methods = {n for n in dir(Graph) if not n.startswith("_") and callable(getattr(Graph, n))}
    assert methods - named == set()
    assert not [p for p in tmp_path.rglob("*.html") if "(None)" in p.read_text(encoding="utf-8")]
