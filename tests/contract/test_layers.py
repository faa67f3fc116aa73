# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one direction of imports, read from the sources."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = "hipdnn_iree"
FOLDERS = ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation")

# Longest prefix of the importing module -> what it may import of the project.
MAY_IMPORT = {
    "graph_api": ("graph_api",),
    "jit": ("graph_api", "jit"),
    "provider": ("graph_api", "jit", "provider"),
    "provider.cli.plugin": (*FOLDERS, ""),  # the one command about what lies above
    "provider.emulated": ("graph_api", "jit", "provider", "emulation"),  # starts it
    "provider.sweep.kernel_facts": ("emulation",),  # reads code objects
    "provider.sweep.instructions": ("graph_api", "jit", "provider", "emulation"),  # likewise
    "hipdnn_plugin": (*FOLDERS, ""),
    "emulation": ("emulation",),  # an AMD GPU knows nothing of what runs on it
    "compat": ("graph_api", "jit", "provider", "compat"),
}
CORE = {"numpy", "ml_dtypes", "iree", "torch_mlir", "hip"}
THIRD_PARTY = {
    "graph_api": set(),
    "jit": CORE,
    "provider": {
        *CORE,
        *("click", "distributed", "msgspec", "onnx", "onnxruntime", "rich", "torch", "yaml"),
    },
    "hipdnn_plugin": CORE,
    "emulation": {"numpy", "ml_dtypes"},
    "compat": {"numpy"},
}


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


@cache
def imports(name: str, path: Path) -> tuple[tuple[str, bool, int], ...]:
    """Return (absolute name, relative or not, line) of every import, wherever it stands."""
    return tuple(_imports(name, path))


def _imports(name: str, path: Path) -> Iterator[tuple[str, bool, int]]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, False, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", False, node.lineno
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1])
            # ``from .. import jit`` and ``from . import knobs`` name modules behind the import.
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for target in names:
                yield f"{base}.{target}", True, node.lineno


def nodes(path: Path, words: Iterable[str]) -> Iterator[ast.AST]:
    """Yield what a module is made of, if one of some words is in it (most are not parsed)."""
    text = path.read_text(encoding="utf-8")
    if any(word in text for word in words):
        yield from ast.walk(ast.parse(text))


def test_direction(modules: dict[str, Path]) -> None:
    wrong = []
    for name, path in modules.items():
        inner = name.removeprefix(PACKAGE).lstrip(".")
        if not inner:
            continue  # the package itself: its re-exports are checked in test_surface.py
        rules = max((prefix for prefix in MAY_IMPORT if within(inner, prefix)), key=len)
        for target, relative, line in imports(name, path):
            if relative and target != f"{PACKAGE}.__version__":
                short = target.removeprefix(PACKAGE).lstrip(".")
                if not any(within(short, prefix) for prefix in MAY_IMPORT[rules]):
                    wrong.append(f"{path}:{line}: {inner} must not import {short}")
    assert not wrong, "\n".join(wrong)


def test_own_modules_are_imported_relatively(modules: dict[str, Path]) -> None:
    """So that a module has one name, however the project is installed."""
    own = (PACKAGE, *FOLDERS)
    wrong = [
        f"{path}:{line}: import {target}"
        for name, path in modules.items()
        for target, relative, line in imports(name, path)
        if not relative and any(within(target, prefix) for prefix in own)
    ]
    assert not wrong, "\n".join(wrong)


def test_outsiders_use_the_full_name(checkout: Path) -> None:
    """Tests, examples and benchmarks import ``hipdnn_iree.jit``, never ``jit``."""
    wrong = [
        f"{path}:{line}: import {target}"
        for folder in ("tests", "examples", "benchmarks", "scripts")
        for path in sorted((checkout / folder).rglob("*.py"))
        for target, relative, line in imports(path.stem, path)
        if relative or any(within(target, prefix) for prefix in FOLDERS)
    ]
    assert not wrong, "\n".join(wrong)


def test_third_party_imports_are_declared(modules: dict[str, Path]) -> None:
    """``graph_api`` needs the standard library only; the others what pyproject.toml lists."""
    wrong = []
    for name, path in modules.items():
        folder = name.split(".")[1] if "." in name else "graph_api"
        allowed = THIRD_PARTY[folder] | sys.stdlib_module_names
        wrong += [
            f"{path}:{line}: {folder} must not import {target}"
            for target, relative, line in imports(name, path)
            if not relative and target.partition(".")[0] not in allowed
        ]
    assert not wrong, "\n".join(wrong)


def test_the_environment_is_read_in_one_module(modules: dict[str, Path]) -> None:
    readers = {
        name
        for name, path in modules.items()
        if re.search(r"\bos\.(environ|getenv)|import.*\b(environ|getenv)\b", path.read_text())
    }
    assert readers <= {f"{PACKAGE}.jit.settings"}


def test_modules_stay_readable(checkout: Path, modules: dict[str, Path]) -> None:
    long = {
        str(path): count
        for path in (*modules.values(), *(checkout / "tools").rglob("*.py"))
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 600
    }
    assert not long


# Where the settings that hold here and now are read: the package's front doors and its programs.
READERS = (
    "jit.settings",
    "provider.artifacts.artifact",  # Artifact.plan
    "provider.cli",
    "provider.emulated",
    "provider.engines.foreign.probe_child",  # a program of its own
    "provider.graph",  # Graph.build, Graph.plans
    "provider.graph_files",  # load
    "provider.offload.api",  # outline, offload
    "provider.onnx.factory",  # CreateEp
    "provider.onnx.registration",
    "provider.precompile",
    "provider.sweep.case_worker",  # a program of its own
    "provider.sweep.cluster_worker",  # what a worker of a cluster calls
    "hipdnn_plugin",
)


def test_settings_are_read_at_the_front_doors(modules: dict[str, Path]) -> None:
    wrong = []
    for name, path in modules.items():
        inner = name.removeprefix(PACKAGE).lstrip(".")
        if any(within(inner, reader) for reader in READERS):
            continue
        for node in nodes(path, ("settings", "scope")):
            called = node.func if isinstance(node, ast.Call) else None
            named = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if named in ("settings", "scope") and not getattr(node, "args", None):
                wrong.append(f"{path}:{getattr(node, 'lineno', 0)}: {inner} reads the settings")
    assert not wrong, "\n".join(wrong)


_RAISING = {"exists", "is_dir", "is_file", "is_symlink"}


def test_questions_about_paths_raise_nothing(modules: dict[str, Path]) -> None:
    """Those of `Path` raise OSError for closed folders and long names; ``os.path`` says no."""
    wrong = [
        f"{name}:{node.lineno} .{node.func.attr}()"
        for name, path in modules.items()
        for node in nodes(path, _RAISING)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _RAISING
        and not node.args  # os.path's take the path
    ]
    assert not wrong
