# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each source file names its licence, and the check finds one that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LINE = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"


def spdx(checkout: Path, *words: object) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, checkout / "scripts" / "spdx", *words)
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300)


def test_each_source_file_names_its_licence(checkout: Path) -> None:
    found = spdx(checkout)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("jit/a.py", '"""A."""\n', f'# {LINE}\n"""A."""\n'),
        ("jit/b.py", f'"""B."""\n# {LINE}', f'# {LINE}\n"""B."""\n# {LINE}'),  # not first
        ("scripts/c", "#!/bin/sh\nexit\n", f"#!/bin/sh\n# {LINE}\nexit\n"),
        ("tools/d.c", "int x;\n", f"// {LINE}\nint x;\n"),
        ("provider/e.css", "b {}\n", f"/* {LINE} */\nb {{}}\n"),
        ("provider/f.html", "<p>\n", f"<!-- {LINE} -->\n<p>\n"),
        ("CMakeLists.txt", "project(x)\n", f"# {LINE}\nproject(x)\n"),
    ],
)
def test_a_file_without_it_is_found_and_mended(
    checkout: Path, tmp_path: Path, name: str, before: str, after: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(before)
    found = spdx(checkout, "--root", tmp_path)
    assert (found.returncode, found.stdout) == (1, f"{name}\n")
    assert "1 without" in found.stderr
    assert path.read_text() == before
    assert spdx(checkout, "--root", tmp_path, "--write").returncode == 0
    assert path.read_text() == after
    assert spdx(checkout, "--root", tmp_path).returncode == 0


def test_data_and_empty_files_need_none(checkout: Path, tmp_path: Path) -> None:
    for name in ("tests/data/a.py", "suites/b.yaml", "tests/c.json", "docs/d.md", "scripts/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\n")
    (tmp_path / "jit").mkdir()
    (tmp_path / "jit" / "empty.py").touch()
    assert spdx(checkout, "--root", tmp_path).returncode == 0
