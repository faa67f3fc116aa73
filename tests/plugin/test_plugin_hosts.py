# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hosts of every kind: each era of hipDNN, of C and of Python, several plugins, unusual orders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken_deployments import pythons
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import decode_details
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era
from hipdnn_iree.hipdnn_plugin import serving
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.native.library import read_record
from plugin_copies import copy_of

from tools.host.driver import ERAS

GRAPHS = Path(__file__).parents[1] / "data" / "opgraphs"
SIMPLE = (GRAPHS / "pw_relu_all.bin").read_bytes()
FUSED = (GRAPHS / "fused_conv_bias_relu_f32_nchw.bin").read_bytes()
OWN, NAIVE = serving.ENGINE_ID, -3881685492516736198
Naive = Callable[..., Path]


def plain(make_job: Any, era: str = "new", **options: Any) -> Any:
    """Return a job that the other plugin serves, too: a sum, which needs workspace there."""
    g = Graph("chain", io_data_type="float")
    x = g.tensor(dims=(3, 5))
    g.relu(g.add(x, x)).set_output()
    return make_job(encode(g.freeze(), Era.N25 if era == "n25" else Era.NODE), **options)


@pytest.mark.parametrize("python", [None, sys.executable], ids=["c", "python"])
@pytest.mark.parametrize("era", ERAS)
def test_legal_orders_that_are_unusual(
    era: str, python: str | None, host: Any, make_job: Any
) -> None:
    job = make_job(FUSED)
    assert host.run("orders", *job.arguments, era=era, python=python)["ordered"] == "yes"
    job.verify()


@pytest.mark.parametrize("scenario", ["run", "threads", "serialized", "errors"])
def test_a_host_in_python_with_its_own_interpreter(
    scenario: str, host: Any, make_job: Any, tmp_path: Path
) -> None:
    """The plugin uses it, also from threads that it does not know."""
    job = make_job(FUSED)
    more = {"run": (50,), "threads": (200, 4), "serialized": (tmp_path / "plan",), "errors": ()}
    host.run(scenario, *job.arguments, *more[scenario], python=sys.executable)
    if scenario in ("run", "serialized"):
        job.verify()


def test_a_host_in_python_of_another_version(host: Any, make_job: Any) -> None:
    """Its first graph is right, or the host is told which package that Python lacks."""
    job = make_job(SIMPLE)
    if not pythons():
        pytest.skip("no other Python of 3.11 to 3.13 on this machine")
    for python in pythons():
        env = {"HOST_SHOW_LOG": "1", "HIPDNN_LOG_LEVEL": "error"}
        done = host.process("run", *job.arguments, 0, python=python, env=env)
        if done.returncode:
            assert done.returncode == 1, (python, done.stdout, done.stderr)
            assert "DEPLOY-18" in done.stdout, (python, done.stdout)
        else:
            job.verify()


# ---------------------------------------------------------------------------- what is listed


def listed(facts: dict[str, str]) -> list[int]:
    return [int(line) for line in facts.get("engine", "").split("\n") if line]


@pytest.mark.parametrize("era", ERAS)
def test_engine_details_as_a_host_reads_them(era: str, host: Any, make_job: Any) -> None:
    """By its own reader, which knows the numbers of the fields from hipDNN's schema."""
    job = make_job(FUSED)
    facts = host.run("details", job.arguments[0], era=era)
    assert listed(facts) == [OWN]
    assert "bad" not in facts
    found = decode_details(serving.details(OWN, settings(), FUSED, Target.parse("cpu")))
    types = {int: 1, float: 2, str: 3}
    knobs = [f"{k.id} {types[type(k.default)]}" for k in found.knobs]
    assert facts.get("knob", "") == ("" if era == "n25" else "\n".join(knobs))


# ---------------------------------------------------------------------------- several plugins


@pytest.mark.parametrize("python", [None, sys.executable], ids=["c", "python"])
@pytest.mark.parametrize("era", ERAS)
def test_the_library_twice_in_one_host(
    era: str, python: str | None, host: Any, make_job: Any, tmp_path: Path
) -> None:
    """From two paths: hipDNN uses the engine of the first; a second hipDNN may use the other."""
    job = make_job(FUSED)
    copy = copy_of(host.library, tmp_path, **read_record(host.library))
    both = f"{host.library}:{copy}"
    facts = host.run("several", *job.arguments, library=both, era=era, python=python)
    # November 2025 refuses the second as a whole; later ones drop its engine.
    assert (facts["plugins"], facts["engines"]) == (("1", "1") if era == "n25" else ("2", "1 0"))
    job.verify()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("era", ERAS)
def test_beside_another_plugin(
    era: str, first: bool, host: Any, make_job: Any, fresh_naive: Naive
) -> None:
    other = fresh_naive("naive", *(["-DN25"] if era == "n25" else []))
    both = [str(host.library), str(other)][:: 1 if first else -1]
    job = plain(make_job, era)
    facts = host.run("details", job.arguments[0], library=":".join(both), era=era)
    assert sorted(listed(facts)) == sorted([OWN, 4242 if era == "n25" else NAIVE])
    facts = host.run("several", *job.arguments, library=":".join(both), era=era)
    assert (facts["plugins"], facts["engines"]) == ("2", "1 1")
    job.verify()


@pytest.mark.parametrize("how", ["create_fails", "applicable_fails", "null_handle", "api_2"])
def test_beside_a_plugin_that_fails(how: str, host: Any, make_job: Any, fresh_naive: Naive) -> None:
    job = plain(make_job)
    both = f"{host.library}:{fresh_naive(how)}"
    facts = host.run("details", job.arguments[0], library=both)
    assert listed(facts) == [OWN]


# ---------------------------------------------------------------------------- plans as bytes


@pytest.mark.parametrize("era", ERAS[1:])
def test_a_plan_loaded_by_a_host_that_passes_the_configuration_too(
    era: str, host: Any, make_job: Any
) -> None:
    """A text of 2026 has four arguments; the header has three."""
    job = make_job(FUSED)
    facts = host.run("orders", *job.arguments, era=era, env={"HOST_FOUR_ARGUMENTS": "1"})
    assert facts["ordered"] == "yes"
    job.verify()


# ---------------------------------------------------------------------------- the host itself


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("writes_past", "4 bytes beside uid"),
        ("writes_before", "4 bytes beside uid"),
        ("writes_operands", "the operand uid"),
        ("writes_past_workspace", "beside the workspace"),
    ],
)
def test_red_zones_are_noticed(
    how: str, text: str, host: Any, make_job: Any, fresh_naive: Naive
) -> None:
    # At the begin of its pages a byte before the buffer would be none of the process.
    job = plain(make_job, engine=NAIVE, seed=how == "writes_before")
    done = host.process("run", *job.arguments, 0, library=fresh_naive(how))
    assert done.returncode == 1
    assert text in done.stdout
