# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Public names: they exist, they are typed, and every object has one home."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import hipdnn_iree
import pytest

FOLDERS = ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation")


@pytest.fixture(scope="module")
def loaded(modules: dict[str, Path]) -> dict[str, ModuleType]:
    """Every module of the project, imported (but for programs that run on import)."""
    return {n: import_module(n) for n in modules if not n.endswith("__main__")}


def test_names_in_all_exist(loaded: dict[str, ModuleType]) -> None:
    wrong = [
        f"{name}.{public}"
        for name, module in loaded.items()
        for public in getattr(module, "__all__", ())
        if not hasattr(module, public)
    ]
    assert not wrong
    for name, module in loaded.items():
        public = list(getattr(module, "__all__", ()))
        assert len(public) == len(set(public)), f"a name stands twice in {name}.__all__"


def test_exports_of_the_package(loaded: dict[str, ModuleType]) -> None:
    exports = hipdnn_iree._EXPORTS
    assert sorted(hipdnn_iree.__all__) == sorted([*exports, "__version__"])
    assert dir(hipdnn_iree) == sorted(hipdnn_iree.__all__)
    for name, home in exports.items():
        module = loaded[f"hipdnn_iree.{home}"]
        assert name in module.__all__, f"{home} does not offer {name}"
        assert getattr(hipdnn_iree, name) is getattr(module, name)
        # What type checkers see is written a second time.
        line = f"from .{home} import {name} as {name}\n"
        assert line in Path(hipdnn_iree.__file__).read_text(encoding="utf-8")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hipdnn_iree.nothing  # noqa: B018


def test_a_public_name_has_one_home(loaded: dict[str, ModuleType]) -> None:
    """It may be offered again by a neighbour in the same package, not by another layer."""
    wrong = []
    for name, module in loaded.items():
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            home = getattr(value, "__module__", name)
            if getattr(type(value), "__module__", "") == home and home != "builtins":
                continue  # an instance: its class is at home elsewhere
            if name == "hipdnn_iree" or not str(home).startswith("hipdnn_iree"):
                continue
            if not home.startswith(name.rpartition(".")[0]):
                wrong.append(f"{name}.{public} belongs to {home}")
    assert not wrong


def test_no_module_is_loaded_under_two_names(loaded: dict[str, ModuleType], checkout: Path) -> None:
    """Two copies of a class would make ``isinstance`` and ``except`` lie."""
    names: dict[Path, set[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name != "__main__":
            names.setdefault(Path(file).resolve(), set()).add(name)
    homes = [checkout / folder for folder in ("hipdnn_iree", *FOLDERS)]
    own = {file: n for file, n in names.items() if any(map(file.is_relative_to, homes))}
    assert len(own) >= len(loaded)
    assert {file: found for file, found in own.items() if len(found) > 1} == {}
    assert not set(FOLDERS) & {name.partition(".")[0] for name in sys.modules}


def test_every_folder_is_marked_as_typed(checkout: Path) -> None:
    for folder in ("hipdnn_iree", *FOLDERS):
        assert (checkout / folder / "py.typed").is_file()


def test_links_for_type_checkers_and_editable_installs(checkout: Path) -> None:
    links = checkout / "typings" / "hipdnn_iree"
    if not links.parent.exists():
        pytest.skip("a source distribution carries no typings/")
    assert sorted(p.name for p in links.parent.iterdir()) == ["hipdnn_iree"]
    expected = {folder: checkout / folder for folder in FOLDERS}
    own = (checkout / "hipdnn_iree").iterdir()
    expected |= {p.name: p for p in own if p.name != "__pycache__"}
    found = [p for p in links.iterdir() if p.name != "__pycache__"]
    assert {p.name: p.resolve() for p in found} == expected
    assert all(p.is_symlink() and not p.readlink().is_absolute() for p in found)
