# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the documents point at is there: files, headings, modules, commands, settings, rules."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hipdnn_iree.jit.settings import KNOBS
from hipdnn_iree.provider.cli.app import app

from tools.soak.driver import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
BY_HAND = [page for page in PAGES if page.parent.name != "reference"]
FOLDERS = "graph_api|jit|provider|hipdnn_plugin|suites|tools|tests|examples|benchmarks|scripts|docs"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def blocks(text: str, *languages: str) -> Iterator[str]:
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language in languages:
            yield code


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub makes of the headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", without_blocks(text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        number = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", known) is not None for known in found
        )
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        there = target.exists() and ROOT in target.parents
        if not there or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            lost.append(link)
    assert lost == []


def test_every_page_is_linked() -> None:
    linked = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            linked.add(target)
            if target.is_dir():
                linked.update(target.iterdir())
    assert [name(page) for page in PAGES[1:] if page not in linked] == []


@pytest.mark.parametrize("page", BY_HAND, ids=name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not any(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", BY_HAND, ids=name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    """Each command of the program, and each of its options, wherever it stands."""
    text = page.read_text(encoding="utf-8")
    shown = [c for code in blocks(text, "sh", "console", "") for c in code.splitlines()]
    shown += re.findall(r"`([^`\n]+)`", without_blocks(text))
    wrong = []
    for line in shown:
        for command in re.split(r"[;|]|&&", line.partition("#")[0].strip().removeprefix("$ ")):
            words = command.split()
            while words and re.match(r"[A-Z_]+=", words[0]):
                words = words[1:]
            if words and Path(words[0]).name == "hipdnn-iree":
                wrong += [f"{command.strip()}: {problem}" for problem in _misfits(words[1:])]
    assert wrong == []


def _misfits(words: list[str]) -> Iterator[str]:
    command: click.Command = app
    ctx = click.Context(app)
    while isinstance(command, click.Group) and words and words[0][0] not in "-.…":
        inner = command.get_command(ctx, words[0])
        if inner is None:
            if words[0].isupper():  # COMMAND
                return
            yield f"no command {words[0]}"
            return
        command, words = inner, words[1:]
    options = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
    for word in words:
        option = word.partition("=")[0].strip("[],:.)")
        if re.match(r"--\w", option) and option not in options:
            yield f"no option {option}"


@pytest.mark.parametrize("page", BY_HAND, ids=name)
def test_variables_that_are_named_are_settings(page: Path) -> None:
    known = {knob.env for knob in KNOBS} | {"HIPDNN_IREE_VENV"}  # the second is of scripts/setup
    named = set(re.findall(r"HIPDNN_IREE_[A-Z_]+", page.read_text(encoding="utf-8")))
    assert sorted(n for n in named - known if n != "HIPDNN_IREE_") == []


@pytest.mark.parametrize("page", BY_HAND, ids=name)
def test_python_that_is_shown_is_python(page: Path) -> None:
    for code in blocks(page.read_text(encoding="utf-8"), "python"):
        ast.parse(code)


@pytest.mark.parametrize("page", BY_HAND, ids=name)
def test_shell_that_is_shown_can_be_split(page: Path) -> None:
    for code in blocks(page.read_text(encoding="utf-8"), "sh", "console"):
        shlex.split(code, comments=True)


def test_every_guarantee_names_a_test_or_attack() -> None:
    """A row of the tables of guarantees ends with what shows it."""
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "shown by" not in line]
    assert len(rows) > 20
    lacking = [r for r in rows if "::" not in r.split("|")[-2] and "attack" not in r.split("|")[-2]]
    assert lacking == []
    named = {
        attack
        for row in rows
        for part in re.findall(r"attacks? ((?:`\w+`,? ?)+)", row)
        for attack in re.findall(r"`(\w+)`", part)
    }
    assert named == set(ATTACKS)


@pytest.mark.parametrize("page", BY_HAND, ids=name)
def test_tests_that_are_named_exist(page: Path) -> None:
    lost = []
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8")):
        file = ROOT / path
        tree = ast.parse(file.read_text(encoding="utf-8") if file.exists() else "")
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        if test not in {node.name for node in ast.walk(tree) if isinstance(node, functions)}:
            lost.append(f"{path}::{test}")
    assert lost == []
