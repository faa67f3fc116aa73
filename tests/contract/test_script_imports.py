# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What scripts, tools, benchmarks and examples import of the project is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

FOLDERS = ("scripts", "tools", "benchmarks", "examples")


def python_files(checkout: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*")):
            if path.suffix == ".py" or (path.is_file() and not path.suffix and _python(path)):
                yield path


def _python(path: Path) -> bool:
    return b"python" in path.read_bytes().partition(b"\n")[0]


def imported(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield module, name in it (or empty) and line of each import of the project."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)


def is_there(module: str, name: str) -> bool:
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        # An optional dependency that is not installed says nothing about the place.
        return not (error.name or "").startswith("hipdnn_iree")
    if not name or hasattr(found, name):
        return True
    return is_there(f"{module}.{name}", "")


def test_imports_of_the_project_are_there(checkout: Path) -> None:
    files = list(python_files(checkout))
    assert len(files) > 20
    wrong = [
        f"{path.relative_to(checkout)}:{line}: {module} {name}"
        for path in files
        for module, name, line in imported(path)
        if module.partition(".")[0] == "hipdnn_iree" and not is_there(module, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_not_there_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(
        "from hipdnn_iree.jit.target import Target, Nothing\n"
        "import hipdnn_iree.no_such_module\n"
        "from hipdnn_iree.jit import target\n"
    )
    found = [is_there(module, name) for module, name, _ in imported(path)]
    assert found == [True, False, False, True]
