# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A shell completes commands, options, targets, engines and files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
ROOT = Path(__file__).parents[2]

CASES = [
    ("ru", ["run"]),
    ("c", ["compile", "cache", "completion"]),
    ("cache tr", ["trim"]),
    ("compile x.json --targ", ["--target"]),
    ("compile x.json --target gfx94", ["gfx942"]),
    ("run --engine ir", ["iree"]),
    ("completion z", ["zsh"]),
    ("compile gra", ["default"]),  # bash looks for files itself
    ("run x.json -o gra", ["default"]),
    ("run x.json --cache-dir gra", ["dirnames"]),
    ("env extra", []),
]


@pytest.fixture
def bash(tmp_path: Path) -> Callable[[str], list[str]]:
    """Complete the last word of a line in a real bash."""
    program = tmp_path / "bin" / "hipdnn-iree"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hipdnn_iree "$@"\n')
    program.chmod(0o755)

    def complete(line: str) -> list[str]:
        text = f"""
            compopt() {{ echo "$2"; }}
            PATH={program.parent}:$PATH
            eval "$(hipdnn-iree completion bash)"
            COMP_WORDS=(hipdnn-iree {line}) COMP_CWORD={len(line.split())}
            _hipdnn_iree_completion hipdnn-iree
            [ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        found = subprocess.run(
            ["bash", "-c", text],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return found.stdout.splitlines()

    return complete


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(("line", "wanted"), CASES, ids=[line for line, _ in CASES])
def test_bash(bash: Callable[[str], list[str]], line: str, wanted: list[str]) -> None:
    assert sorted(bash(line)) == sorted(wanted)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cli("completion", shell, "--json").json()
    assert found["shell"] == shell
    assert "hipdnn-iree" in found["use"]
    assert f"_HIPDNN_IREE_COMPLETE={shell}_complete" in found["script"]
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert cli("completion").out.strip() == found["script"]


@pytest.mark.parametrize(("own", "got"), [("", "not set"), ("/bin/tcsh", "tcsh")])
def test_a_shell_that_is_not_known(
    own: str, got: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", own)
    for words in ([], ["tcsh"] if own else [""]):
        found = cli("completion", *words)
        assert found.code == 2
        assert got in found.err
        assert "wanted one of bash, zsh, fish" in found.err
