# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No circles between modules, wherever the imports stand: one in a function hides a circle.

Imports for types only (``if TYPE_CHECKING``) are left out: nothing is executed for them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def statements(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the relative imports that may be executed; own modules are imported relatively."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node
        elif isinstance(node, ast.stmt) and is_type_checking(node):
            assert isinstance(node, ast.If)
            for other in node.orelse:
                yield from statements(other)
        else:
            yield from statements(node)


def imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[tuple[str, int]]:
    """Yield the project's modules that a module imports, each with a line."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        parts = package.split(".")
        base = ".".join(parts[: len(parts) - node.level + 1])
        base = f"{base}.{node.module}" if node.module else base
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            target = inner if inner in modules else base
            if target in modules and target != name:
                yield target, node.lineno


Graph = dict[str, dict[str, int]]


def circles(graph: Graph) -> Graph:
    """Return the imports that are part of a circle."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        stack = [start]
        while stack:
            new = graph[stack.pop()].keys() - seen
            seen |= new
            stack.extend(new)
        reached[start] = seen
    return {
        name: inside
        for name, edges in graph.items()
        if (inside := {to: line for to, line in edges.items() if name in reached[to]})
    }


def test_no_circles(modules: dict[str, Path]) -> None:
    graph = {name: dict(imported(name, path, modules)) for name, path in modules.items()}
    wrong = [
        f"{name}:{line} imports {to.removeprefix('hipdnn_iree.')}, which imports it"
        for name, edges in circles(graph).items()
        for to, line in edges.items()
    ]
    assert not wrong, "\n".join(wrong)


def planted(tmp_path: Path, **texts: str) -> set[str]:
    modules = {}
    for name, text in texts.items():
        modules[f"p.{name}"] = tmp_path / f"{name}.py"
        modules[f"p.{name}"].write_text(text, encoding="utf-8")
    return set(circles({n: dict(imported(n, path, modules)) for n, path in modules.items()}))


def test_a_circle_is_found(tmp_path: Path) -> None:
    found = planted(tmp_path, a="from .b import f", b="from . import c", c="from .a import g", d="")
    assert found == {"p.a", "p.b", "p.c"}


def test_an_import_in_a_function_hides_none(tmp_path: Path) -> None:
    inside = "class C:\n    def f(self):\n        from .a import g\n"
    assert planted(tmp_path, a="from .b import f", b=inside) == {"p.a", "p.b"}


def test_imports_for_types_make_none(tmp_path: Path) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import g\n"
    assert not planted(tmp_path, a="from .b import f", b=typed)
