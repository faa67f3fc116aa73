# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nothing half-done: an op has every layer, a rule has an id, a use and a negative test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.ops import NAMES_BY_CODE, OPS
from hipdnn_iree.jit.lowering import lowering
from hipdnn_iree.jit.ops import info

RULE_ID = re.compile(r"(?:[A-Z][A-Z0-9]*-)+\d\d")


def tables(tree: ast.Module) -> Iterator[ast.Dict]:
    """Yield the tables of rules that are written out in a module (``RULES``, ``CONV_RULES``)."""
    for node in ast.walk(tree):
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            if (
                isinstance(target, ast.Name)
                and target.id.endswith("RULES")
                and isinstance(value, ast.Dict)
            ):
                yield value


class Rules:
    """Where rule ids stand: in tables, and in the code that reports them."""

    def __init__(self, modules: dict[str, Path]) -> None:
        self.defined: list[tuple[str, str, str]] = []  # id, sentence, module
        self.used: dict[str, set[str]] = {}  # id -> modules
        for name, path in modules.items():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            keys = set()
            for table in tables(tree):
                for key, value in zip(table.keys, table.values, strict=True):
                    keys.add(id(key))
                    self.defined.append((ast.literal_eval(key), ast.literal_eval(value), name))
            for node in ast.walk(tree):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and RULE_ID.fullmatch(text) and id(node) not in keys:
                    self.used.setdefault(text, set()).add(name)


@pytest.fixture(scope="module")
def rules(modules: dict[str, Path]) -> Rules:
    return Rules(modules)


@pytest.fixture(scope="module")
def texts(checkout: Path) -> str:
    """The text of all tests but those of this folder."""
    here = Path(__file__).parent
    paths = [p for p in (checkout / "tests").rglob("*.py") if p.parent != here]
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(paths))


def test_the_table_of_ops_names_its_files(checkout: Path) -> None:
    files = {p.stem for p in (checkout / "graph_api" / "ops").glob("*.py")}
    assert set(OPS) <= files
    assert all(name == op.NAME for name, op in OPS.items())


@pytest.mark.parametrize("op", OPS)
def test_an_op_has_a_lowering(op: str) -> None:
    assert callable(lowering(op))


@pytest.mark.parametrize("op", OPS)
def test_the_jit_knows_an_op(op: str) -> None:
    assert callable(info(op).work)


@pytest.mark.parametrize("op", OPS)
def test_an_op_has_a_reference(op: str, checkout: Path) -> None:

    path = checkout / "provider" / "reference" / f"{op}.py"
    assert path.is_file()


@pytest.mark.parametrize("op", OPS)
def test_an_op_has_tests(op: str, checkout: Path) -> None:
    path = checkout / "tests" / "ops" / f"test_{op}.py"
    assert path.is_file()
    assert "def test_" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("op", OPS)
def test_an_op_is_a_method_of_the_graph(op: str) -> None:
    from hipdnn_iree import Graph

    method = getattr(Graph, op)
    assert callable(method)
    assert method.__doc__


@pytest.mark.parametrize("op", OPS)
def test_an_op_is_documented(op: str, checkout: Path) -> None:
    assert f"`{op}`" in (checkout / "docs/reference/ops.md").read_text(encoding="utf-8")


def test_wire_codes_are_unique_and_those_of_the_list() -> None:
    codes = {name: op.WIRE_CODE for name, op in OPS.items() if op.WIRE_CODE is not None}
    assert len(codes) == len(set(codes.values()))
    assert codes == {name: code for code, name in NAMES_BY_CODE.items()}


def test_rule_ids_are_unique_and_well_formed(rules: Rules) -> None:
    counts = Counter(rule for rule, _, _ in rules.defined)
    assert [rule for rule, count in counts.items() if count > 1] == []
    assert [rule for rule in counts if not RULE_ID.fullmatch(rule)] == []
    # What stands before the number belongs to one module, so that a reader knows where to look.
    homes: dict[str, set[str]] = {}
    for rule, _, module in rules.defined:
        homes.setdefault(rule.rpartition("-")[0], set()).add(module)
    assert {word: found for word, found in homes.items() if len(found) > 1} == {}


def test_a_rule_is_one_sentence(rules: Rules) -> None:
    for rule, sentence, module in rules.defined:
        assert re.fullmatch(r".{10,}[^.]", sentence), f"{module}: {rule}"


def test_rules_in_tables_are_reported_somewhere(rules: Rules) -> None:
    unused = [f"{module}: {rule}" for rule, _, module in rules.defined if rule not in rules.used]
    assert not unused


def test_the_rules_of_an_op_are_reported_by_its_own_file(rules: Rules) -> None:
    home = {rule: module for rule, _, module in rules.defined}
    for op in OPS.values():
        assert op.RULES
        for rule in op.RULES:
            assert rule in home, f"{rule} of {op.NAME} is not written out in a table"
            assert home[rule] in rules.used.get(rule, ()), f"{rule} is not used in {home[rule]}"


def test_rules_that_are_reported_stand_in_a_table(rules: Rules) -> None:
    defined = {rule for rule, _, _ in rules.defined}
    unknown = {rule: sorted(used) for rule, used in rules.used.items() if rule not in defined}
    assert not unknown


def test_every_rule_has_a_test_that_names_it(rules: Rules, texts: str) -> None:
    named = set(RULE_ID.findall(texts))
    missing = sorted({rule for rule, _, _ in rules.defined} - named)
    assert not missing, f"no test under tests/ names {', '.join(missing)}"
