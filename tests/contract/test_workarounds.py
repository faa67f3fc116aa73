# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The known compiler defects: each folder is complete, the code names none that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools import check_workarounds as tool
from tools.workarounds.judge import MENDED, NEEDED, UNKNOWN, judge
from tools.workarounds.schema import Defect, DefectError, defects, read

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "upstream"
FOLDERS = sorted(path for path in FOLDER.iterdir() if path.is_dir())
PACKAGES = ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation")
FLAGS = '["--iree-input-type=none", "--iree-hal-target-backends=llvm-cpu"]'


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_folder_is_complete(folder: Path) -> None:
    found = read(folder)
    report = (folder / "README.md").read_text("utf-8")
    assert report.startswith(f"# {found.title}\n")
    for part in ("What happens", "To repeat", "Expected", "Environment"):
        assert f"\n## {part}\n" in report, part
    if found.state == NEEDED and found.check.kind != "none":
        assert all(re.fullmatch(r"3\.13\.\d+|\d{8}", v) for v in found.versions)


def test_ids_that_code_names_exist() -> None:
    known = {folder.name for folder in FOLDERS}
    named = {
        (str(path.relative_to(ROOT)), number)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for number in re.findall(r"\bW-\d+\b", path.read_text("utf-8"))
    }
    assert [pair for pair in sorted(named) if pair[1] not in known] == []


def test_rule_modules_have_a_defect() -> None:
    rules = (ROOT / "jit" / "workarounds").rglob("w[0-9]*.py")
    wanted = {path: f"W-{path.stem[1:4]}" for path in rules}
    lost = [p.name for p, number in wanted.items() if not (FOLDER / number).is_dir()]
    assert lost == []


def test_places_of_rules_exist() -> None:
    """Each ``module:name`` is in a module of that name, wherever it stands."""
    sources: dict[str, str] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            sources[path.stem] = sources.get(path.stem, "") + path.read_text("utf-8")
    places = [(one.id, *place.split(":")) for one in defects(FOLDER) for place in one.where]
    lost = [p for p in places if not re.search(rf"\b{re.escape(p[2])}\b", sources.get(p[1], ""))]
    assert lost == [], "'where' in defect.toml names what is not in the code"


def test_page_is_up_to_date() -> None:
    made = tool.page(defects(FOLDER), tool.recorded())
    assert (ROOT / "docs" / "reference" / "workarounds.md").read_text("utf-8") == made


# ------------------------------------------------------------------------ the tool


def made(tmp_path: Path, source: str, check: str, state: str = NEEDED) -> Defect:
    """Write a defect and return it as read."""
    folder = tmp_path / "W-900"
    folder.mkdir()
    (folder / "README.md").write_text("# Made up\n")
    (folder / "repro.mlir").write_text(source)
    (folder / "defect.toml").write_text(
        'id = "W-900"\ntitle = "Made up"\nsymptom = "crash"\ncomponent = "none"\n'
        'versions = ["3.13.0"]\ntargets = ["cpu"]\nhow = "compiled"\nwhere = []\n'
        f'state = "{state}"\ninstead = "."\nwhen = "."\nfound = "."\n[check]\n{check}\n'
    )
    return read(folder)


DOUBLED = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["-k", "W-001", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["verdict"] == NEEDED


def test_mended_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, DOUBLED, f'kind = "compile"\nmessage = "signal"\nflags = {FLAGS}')
    assert tool.main(["--folder", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert MENDED in out
    assert "W-900 (Made up): mended" in err


@pytest.mark.parametrize(("expected", "verdict"), [("x * 3", NEEDED), ("x * 2", MENDED)])
def test_numbers(tmp_path: Path, expected: str, verdict: str) -> None:
    inputs = '[[check.inputs]]\nname = "x"\nshape = [4]\ndtype = "f32"\nfill = "iota"'
    check = f'kind = "run"\nexpected = "{expected}"\nflags = {FLAGS}\n{inputs}'
    assert judge(made(tmp_path, DOUBLED, check)).verdict == verdict


@pytest.mark.parametrize(
    ("message", "verdict"), [("time limit", NEEDED), ("out of registers", UNKNOWN)]
)
def test_time_limit(tmp_path: Path, message: str, verdict: str) -> None:
    check = f'kind = "compile"\nmessage = "{message}"\nflags = {FLAGS}\nlimit_s = 0.01'
    found = judge(made(tmp_path, DOUBLED, check))
    assert found.verdict == verdict
    assert "time limit" in found.reason


def test_memory_limit(tmp_path: Path) -> None:
    check = f'kind = "compile"\nmessage = "signal 11"\nflags = {FLAGS}\nmemory_gb = 0.05'
    assert judge(made(tmp_path, DOUBLED, check)).verdict == UNKNOWN


def test_other_failures_are_not_the_defect(tmp_path: Path) -> None:
    check = f'kind = "compile"\nmessage = "signal 11"\nflags = {FLAGS}'
    found = judge(made(tmp_path, "nonsense", check))
    assert found.verdict == UNKNOWN
    assert "fails in another way" in found.reason


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ('kind = "compile"', "lacks what it needs"),
        ('kind = "guess"', "check.kind: got 'guess'"),
        ('kind = "none"\nreason = "."\nwhy = 1', "unknown keys why"),
        ('kind = "compile"\nmessage = "("', "no regular expression"),
        ('kind = "none"\nreason = 3', "check.reason: got 3"),
    ],
)
def test_folders_that_cannot_be_read(tmp_path: Path, check: str, text: str) -> None:
    with pytest.raises(DefectError, match=re.escape(text)):
        made(tmp_path, DOUBLED, check)
