# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The record of ONNX's cases of single nodes: complete, without faults, and not out of date."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import pytest
from hipdnn_iree.provider.onnx.claims import RULES

from tools.onnx.cases import RECORD, collected, ops_of, outcome

REPAIR = "run python -m tools.onnx.cases --jobs 2 --record, then scripts/gen_docs onnx_cases"


@pytest.fixture(scope="module")
def ops() -> Any:
    return json.loads(RECORD.read_text(encoding="utf-8"))["ops"]


@pytest.fixture(scope="module")
def cases() -> Any:
    about = json.loads(RECORD.read_text(encoding="utf-8"))["about"]
    if any(version(package) != about[package] for package in ("onnx", "onnxruntime")):
        pytest.skip("the record is of other versions of onnx and onnxruntime")
    return collected()


def declined(ops: Any) -> dict[str, str]:
    """Return the rules of each case that is declined."""
    return {c: why[0] for entry in ops.values() for c, why in entry.get("declined", {}).items()}


def test_nothing_is_wrong_and_most_is_equal(ops: Any) -> None:
    assert {state for entry in ops.values() for state in entry} <= {"equal", "declined"}
    equal, others = sum(entry["equal"] for entry in ops.values()), len(declined(ops))
    assert equal >= 0.85 * (equal + others)


@pytest.mark.slow
def test_rules_and_ops_are_those_of_the_code(ops: Any, cases: Any) -> None:
    rules = {rule for told in declined(ops).values() for rule in told.split(", ")}
    assert rules <= set(RULES), REPAIR
    assert set(declined(ops)) <= set(cases), REPAIR
    assert set(ops) <= set(map(ops_of, cases.values())), REPAIR


@pytest.mark.slow
def test_what_is_declined_is_still_declined_so(ops: Any, cases: Any) -> None:
    """One case of each op and rule; ``--full`` of `test_all_cases` tries all."""
    chosen: dict[tuple[str, str], str] = {}
    for name, rules in declined(ops).items():
        if rules not in ("EP-06", "EP-07"):  # what compiles takes its time
            chosen.setdefault((ops_of(cases[name]), rules), name)
    for (_, rules), name in chosen.items():
        found = outcome(cases[name].model, cases[name].data_sets)
        assert (found["state"], found.get("rules")) == ("declined", rules.split(", ")), REPAIR


@pytest.mark.full
def test_all_cases(ops: Any, cases: Any) -> None:
    from tools.onnx.cases import record, run

    assert record(run("", 2))["ops"] == ops, REPAIR
