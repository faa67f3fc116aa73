"""What docs/add-an-op.md shows of one op is all that names it in the code."""

from __future__ import annotations

import re
from pathlib import Path

OP = "rmsnorm_backward"
MOST_FILES = 5


def shown(checkout: Path) -> tuple[set[str], dict[str, list[str]]]:
    """Return the files and the lines of tables that the page shows."""
    text = (checkout / "docs" / "add-an-op.md").read_text(encoding="utf-8")
    diff = text.rpartition("```diff\n")[2].partition("```")[0]
    files, lines, table = set(), {}, ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            files.add(line[4:])
        elif line.startswith("--- "):
            table = line[4:]
            lines[table] = []
        else:
            lines[table].append(line[1:])
    return files, lines


def test_the_files_are_those_of_the_op(checkout: Path) -> None:
    files, _ = shown(checkout)
    assert len(files) <= MOST_FILES
    folders = ("graph_api", "jit", "provider", "hipdnn_plugin", "suites/ops", "tests/ops")
    named = {
        path.relative_to(checkout).as_posix()
        for folder in folders
        for path in (checkout / folder).rglob("*.*")
        if path.suffix in (".py", ".yaml") and path.stem in (OP, f"test_{OP}")
    }
    assert files == named


def test_the_lines_are_those_of_the_tables(checkout: Path) -> None:
    files, lines = shown(checkout)
    camel = "".join(word.capitalize() for word in OP.split("_"))
    word = re.compile(rf"\b({OP}|{camel})\b")
    for path, told in lines.items():
        text = (checkout / path).read_text(encoding="utf-8")
        assert [line for line in text.splitlines() if word.search(line)] == told, path
        assert len([line for line in told if "import" not in line]) <= 2, path
    for folder in ("graph_api", "jit", "hipdnn_plugin"):
        for path in (checkout / folder).rglob("*.py"):
            name = path.relative_to(checkout).as_posix()
            if name not in files | set(lines):
                code = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
                assert not re.search(rf"import .*\b({OP}|{camel})\b", code), name
