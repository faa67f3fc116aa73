# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The suites that come with the project, read: how many problems, of what, and none wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit.work import graph_work
from hipdnn_iree.provider.sweep.samples import SUITES
from hipdnn_iree.provider.sweep.sources import read_all

NETWORKS = sorted(path.stem for path in (SUITES / "networks").glob("*.yaml"))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name: str) -> None:
    suite = read_all([f"networks/{name}"], check=True)
    typed = list(suite.by_type())
    names = Counter(case.name for case in typed)
    assert max(names.values()) == 1
    assert {case.dtypes[0].json for case in suite.by_type("cpu")} == {"float", "bfloat16"}
    assert {case.dtypes[0].json for case in suite.by_type("gfx942")} == {"half", "bfloat16"}
    here = [case.freeze() for case in suite.by_type("cpu") if case.dtypes[0].json == "float"]
    assert len({graph.digest for graph in here}) == len(here)  # every layer once
    assert max(graph_work(graph).flops for graph in here) < 31e9
    assert any("fused" in case.tags for case in suite.cases)


def test_the_networks_are_the_ones_that_are_told() -> None:
    assert [
        *("bert_base", "efficientnet_b0", "llama3", "mixtral", "mobilenet_v3", "resnet50"),
        *("stable_diffusion", "unet", "vit_b16", "whisper_base"),
    ] == NETWORKS


def test_problems_drawn_at_random() -> None:
    one, other = (read_all(["random"], check=True, seed=seed) for seed in (None, 77))
    for suite in (one, other):
        assert len(suite.cases) == 300
        graphs = [case.freeze() for case in suite.by_type("cpu")]
        assert max(graph_work(graph).flops for graph in graphs) < 2.1e9
        assert len({graph.digest for graph in graphs}) > 290
    digests = [{case.freeze().digest for case in suite.by_type("cpu")} for suite in (one, other)]
    assert len(digests[0] & digests[1]) < 10


def test_how_much_there_is() -> None:
    suite = read_all(["ops", "networks", "random"], check=False)
    typed = list(suite.by_type("cpu"))
    ops = {op for case in typed for op in case.op.split("+")} & set(OPS)
    kinds = Counter(case.dtypes[0].json for case in typed)
    assert len(typed) >= 6000
    assert len(ops) >= 28
    assert all(kinds[kind] >= 1000 for kind in ("float", "bfloat16"))
    assert len({case.name for case in typed}) == len(typed)


def test_the_suite_of_every_night() -> None:
    for target in ("cpu", "gfx942"):
        typed = list(read_all(["nightly"], check=False).by_type(target))
        ops = {op for case in typed for op in case.op.split("+")} & set(OPS)
        kinds = Counter(case.dtypes[0].json for case in typed)
        assert 1500 <= len(typed) <= 1700
        assert len(ops) >= 28
        assert sum(count >= 200 for count in kinds.values()) >= 3
        assert {case.source.partition("/")[0] for case in typed} > {"ops", "networks"}
