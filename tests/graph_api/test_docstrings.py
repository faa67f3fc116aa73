# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples in the docstrings run, and what is public has a docstring."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module
from types import ModuleType

import hipdnn_iree.graph_api
import pytest

MODULES = [
    import_module(info.name)
    for info in pkgutil.walk_packages(
        hipdnn_iree.graph_api.__path__, prefix="hipdnn_iree.graph_api."
    )
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.removeprefix("hipdnn_iree."))
def test_examples(module: ModuleType) -> None:
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.FAIL_FAST)
    assert found.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    assert sum(len(t.examples) for m in MODULES for t in finder.find(m)) > 0


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.removeprefix("hipdnn_iree."))
def test_public_things_are_documented(module: ModuleType) -> None:
    assert module.__doc__
    for name, thing in vars(module).items():
        own = getattr(thing, "__module__", None) == module.__name__
        if name.startswith("_") or not own or not callable(thing):
            continue
        assert thing.__doc__, f"{module.__name__}.{name}"
        if inspect.isclass(thing):
            for member, function in vars(thing).items():
                if inspect.isfunction(function) and not member.startswith("_"):
                    # An overridden hook of Op says what it says there.
                    assert inspect.getdoc(getattr(thing, member)), f"{name}.{member}"
