# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``--buckets``: code for each bucket in the cache, in files and in an artifact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hipdnn_iree import Graph

Cli = Callable[..., Any]


def test_what_is_compiled_ahead_is_what_runs(
    cli: Cli, rows_file: Path, tmp_path: Path, own_cache: Path
) -> None:
    words = ["compile", rows_file, "--target", "cpu", "--buckets", "n=8,64"]
    found = cli(*words, "-o", tmp_path / "{graph}-{bucket}.vmfb", "--json")
    assert found.code == 0, found.err
    about = found.json()
    assert [row["bucket"] for row in about["targets"]] == [{"n": 8}, {"n": 64}]
    assert about["summary"]["pairs"] == about["summary"]["compiled"] == 2
    assert {p.name for p in tmp_path.glob("*.vmfb")} == {"rows-n8.vmfb", "rows-n64.vmfb"}
    assert about["graph"]["digest"] == cli("show", rows_file, "--format", "digest").out.strip()

    run = ["run", rows_file, "--require-precompiled", "--json", "--verify", "--buckets", "8,64"]
    found = cli(*run, "--shape", "n=17")
    assert found.code == 0, found.err
    assert (found.json()["cache"], found.json()["bucket"]) == ("hit", {"n": 64})
    missing = cli(*run[:-1], "powers", "--shape", "n=17")
    assert missing.code == 3
    assert "bucket n = 32" in missing.err
    assert missing.json()["error"]["buckets"] == {"n": "powers"}
    assert "hipdnn-iree compile GRAPH --target cpu --buckets n=powers" in missing.err

    table = cli(*words)
    assert table.out.splitlines()[0].split()[:3] == ["target", "bucket", "cache"]
    assert "rows.json for cpu at n = 64: in the cache" in table.err
    assert "0 compiled, 2 in the cache" in table.err


def test_an_artifact_holds_the_code_of_each_bucket(
    cli: Cli, rows_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "rows.hipdnn-iree"
    words = ["artifact", "create", rows_file, "--target", "cpu", "--buckets", "8,64", "-o", path]
    found = cli(*words, "--json")
    assert found.code == 0, found.err
    assert [plan["bucket"] for plan in found.json()["plans"]] == [{"n": 8}, {"n": 64}]
    table = cli("artifact", "show", path)
    assert ["cpu", "n", "=", "8"] in [line.split()[:4] for line in table.out.splitlines()]
    run = cli("run", path, "--verify", "--json", "--shape", "n=17")
    assert run.code == 0, run.err
    assert (run.json()["cache"], run.json()["bucket"]) == ("artifact", {"n": 64})
    over = cli("run", path, "--shape", "n=65")
    assert over.code == 2
    assert "[BUCKET-02] got 65" in over.err


def test_buckets_that_do_not_do(cli: Cli, rows_file: Path, tmp_path: Path) -> None:
    words = ["compile", rows_file, "--target", "cpu", "--buckets"]
    one = cli(*words, "powers", "-o", tmp_path / "a.vmfb")
    assert one.code == 2
    assert "put {bucket} in its name" in one.err
    many = cli(*words, "2", "--json")
    assert many.code == 2
    (problem,) = many.json()["error"]["problems"]
    assert (problem["rule"], problem["port"]) == ("BUCKET-03", "n")
    assert "multiples of 2: more than 64" in problem["got"]
    assert "BUCKET-01" in cli(*words, "m=4").err
    assert "none of powers" in cli(*words, "some").err


def test_a_graph_without_dynamic_dims(cli: Cli, graphs: Path) -> None:
    found = cli("compile", graphs / "bf16.json", "--target", "cpu", "--buckets", "8", "--json")
    assert (found.code, found.json()["targets"][0]["bucket"]) == (0, None)
    assert "bf16.json has no dynamic dims; --buckets changes nothing" in found.err


def test_the_name_of_a_dim_that_no_graph_has(cli: Cli, graphs: Path, rows_file: Path) -> None:
    fixed = graphs / "bf16.json"
    for words in (
        ["compile", fixed, "--target", "cpu"],
        ["run", fixed],
        ["artifact", "create", fixed, "--target", "cpu", "-o", "unwritten"],
    ):
        found = cli(*words, "--buckets", "n=8")
        assert found.code == 2
        assert "[BUCKET-01] got no dynamic dim of this name" in found.err
        assert "the graph has no dynamic dims" in found.err
        assert "changes nothing" not in found.err
    assert not Path("unwritten").exists()
    # Of several graphs it is enough that one has it.
    both = ["compile", fixed, rows_file, "--target", "cpu", "--json", "--buckets"]
    some = cli(*both, "n=8,64")
    assert some.code == 0, some.err
    assert [t["bucket"] for t in some.json()["graphs"][0]["targets"]] == [None]
    none = cli(*both, "nn=8", "--buckets", "n=8,64")
    assert (none.code, none.json()["summary"]["failed"]) == (2, 2)
    assert "did you mean 'n'?" in none.err


def test_a_graph_whose_sizes_cannot_be_rounded_up(cli: Cli, tmp_path: Path) -> None:
    g = Graph("sum", io_data_type="float")
    x = g.tensor(dims=(g.dynamic("n", range=(1, 64)), 6), name="x")
    g.reduction(x, mode="add", axes=[0]).set_output()
    path = tmp_path / "sum.json"
    g.save(path)
    for command in (["compile"], ["artifact", "create", "-o", str(tmp_path / "a")]):
        found = cli(*command, path, "--target", "cpu", "--buckets", "8", "--json")
        assert found.code == 3
        assert found.json()["error"]["declines"][0]["rule"] == "MIX-01"
    assert list(tmp_path.iterdir()) == [path]
