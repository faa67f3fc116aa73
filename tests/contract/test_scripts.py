# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The shell scripts: sound, portable, and honest; tried with a Python that only pretends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = ("scripts/setup", "scripts/test", "scripts/demo", ".ci/run")
TOOLS = (
    *("bash", "cat", "cp", "dirname", "env", "flock", "grep", "ls", "mkdir", "readlink", "rm"),
    *("sha256sum", "sleep", "tail", "touch", "cut"),
)

PRETENDER = """#!/bin/bash
printf '%s\\n' "$*" >>"$FAKE_LOG"
case "$*" in
  --version) echo Python 3.11.99 ;;
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && touch "$4/pyvenv.cfg" ;;
  *"-m pip "*) echo "pip said this"; exit "${FAKE_PIP:-0}" ;;
  "-m ruff check") exit "${FAKE_RUFF:-0}" ;;
  "-m mypy") exit "${FAKE_MYPY:-0}" ;;
  "-m pytest "*) echo "== 7 passed in 1s =="; exit "${FAKE_PYTEST:-0}" ;;
  */examples/main_job.py*) echo "the main job in $PWD" ;;
esac
"""


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_is_sound(script: str, checkout: Path) -> None:
    path = checkout / script
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert re.search(r"^set -e?uo? ?p?", text, re.M)
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", path], check=True)
    # Nothing of one machine: no index, no absolute path of an installation.
    assert not re.search(r"https?://|--index-url|--find-links|/opt/|/root/|/home/", text)


class Sandbox:
    """A checkout with only the scripts, in a path with spaces, and a PATH made to order."""

    def __init__(self, checkout: Path, tmp: Path) -> None:
        self.root = tmp / "my clones" / "hip dnn"
        for name in (*SCRIPTS, "pyproject.toml", "hipdnn_iree/__init__.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, self.root / name)
        self.bin = tmp / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)
        self.log = tmp / "log"
        self.elsewhere = tmp / "elsewhere"
        self.elsewhere.mkdir()

    def python(self, name: str = "python3.11", text: str = PRETENDER) -> Path:
        path = self.bin / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def run(
        self, script: str | Path, *arguments: str, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        env = {"PATH": str(self.bin), "FAKE_LOG": str(self.log), "PYTHONPATH": "/nowhere"}
        return subprocess.run(
            [self.root / script, *arguments],
            cwd=self.elsewhere,
            env={**env, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def calls(self, part: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if part in line]


@pytest.fixture
def sandbox(checkout: Path, tmp_path: Path) -> Sandbox:
    return Sandbox(checkout, tmp_path)


def test_setup_installs_once(sandbox: Sandbox) -> None:
    sandbox.python()
    first = sandbox.run("scripts/setup")
    assert (first.returncode, first.stdout) == (0, f"{sandbox.root}/.venv/bin/python\n")
    assert "virtual environment" in first.stderr
    assert "pip said" not in first.stderr
    (pip,) = sandbox.calls("-m pip")
    assert pip.endswith(f"install --editable {sandbox.root}[dev]")
    second = sandbox.run("scripts/setup")
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")
    assert not sandbox.calls("-m pip")


def test_setup_renews_what_has_changed(sandbox: Sandbox) -> None:
    sandbox.python()
    sandbox.run("scripts/setup")
    for name, old, new in (
        ("pyproject.toml", "click>=8", "click>=9"),
        ("hipdnn_iree/__init__.py", '__version__ = "', '__version__ = "9'),
    ):
        path = sandbox.root / name
        path.write_text(path.read_text().replace(old, new))
        assert sandbox.run("scripts/setup").returncode == 0
        assert sandbox.calls("-m pip"), name
        assert not sandbox.calls("-m venv"), name
    # A moved checkout: the editable install would point to the old place.
    moved = sandbox.root.parent / "moved"
    sandbox.root = sandbox.root.rename(moved)
    assert sandbox.run("scripts/setup").stdout == f"{moved}/.venv/bin/python\n"
    assert sandbox.calls("-m pip")
    # A broken environment: the Python that it was made with is gone.
    (moved / ".venv/bin/python").unlink()
    assert sandbox.run("scripts/setup").returncode == 0
    assert sandbox.calls("-m venv")


def test_setup_reports_a_failure_of_pip_and_tries_again(sandbox: Sandbox) -> None:
    sandbox.python()
    failed = sandbox.run("scripts/setup", FAKE_PIP="3")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "pip said this" in failed.stderr
    assert f"{sandbox.root}/.venv/setup.log" in failed.stderr
    assert sandbox.run("scripts/setup").returncode == 0
    assert sandbox.calls("-m pip")


def test_setup_in_a_folder_of_choice(sandbox: Sandbox) -> None:
    sandbox.python()
    done = sandbox.run("scripts/setup", HIPDNN_IREE_VENV="my env")
    assert done.stdout == f"{sandbox.elsewhere}/my env/bin/python\n"
    assert not (sandbox.root / ".venv").exists()
    precious = sandbox.elsewhere / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("...")
    refused = sandbox.run("scripts/setup", HIPDNN_IREE_VENV=str(precious))
    assert refused.returncode == 1
    assert "is not a virtual environment" in refused.stderr
    assert [p.name for p in precious.iterdir()] == ["thesis.tex"]


def test_setup_looks_for_a_python_that_works(sandbox: Sandbox) -> None:
    none = sandbox.run("scripts/setup")
    assert none.returncode == 1
    assert "no Python 3.11 or newer" in none.stderr
    assert "PYTHON=" in none.stderr
    # Launchers of version managers start nothing; an old Python does not fit.
    for name in ("python3.13", "python3.12", "python3"):
        sandbox.python(name, "#!/bin/bash\nexit 127\n")
    assert "no Python 3.11 or newer" in sandbox.run("scripts/setup").stderr
    bad = sandbox.run("scripts/setup", PYTHON="python3.12")
    assert bad.returncode == 1
    assert "PYTHON=python3.12 is not" in bad.stderr
    no_venv = '#!/bin/bash\ncase "$*" in *ensurepip*) exit 1 ;; esac\n'
    sandbox.python("python3.11", no_venv)
    assert "python3-venv" in sandbox.run("scripts/setup").stderr
    sandbox.python("snake")
    assert sandbox.run("scripts/setup", PYTHON="snake").returncode == 0


def test_checks_run_in_order_and_pytest_has_the_last_word(sandbox: Sandbox) -> None:
    sandbox.python()
    link = sandbox.elsewhere / "link"
    link.symlink_to(sandbox.root / "scripts/test")
    done = sandbox.run(link, "tests/jit", "-k", "a or b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "== 7 passed in 1s =="
    tools = [line.split()[1] for line in sandbox.calls("-m ")]
    assert tools == ["venv", "pip", "ruff", "ruff", "mypy", "pytest"]
    (pytest_call,) = sandbox.calls("-m pytest")
    assert pytest_call.endswith("tests/jit -k a or b")
    quick = sandbox.run("scripts/test", "--quick")
    assert quick.returncode == 0
    assert not sandbox.calls("-m mypy")
    assert "not slow" in sandbox.calls("-m pytest")[0]


@pytest.mark.parametrize("tool", ["RUFF", "MYPY", "PYTEST"])
@pytest.mark.parametrize("script", ["scripts/test", ".ci/run"])
def test_a_failed_check_fails_the_run(tool: str, script: str, sandbox: Sandbox) -> None:
    sandbox.python()
    done = sandbox.run(script, **{f"FAKE_{tool}": "2"})
    assert done.returncode == 1
    assert tool.lower() in done.stdout.splitlines()[-1]
    assert sandbox.calls("-m pytest"), "later checks run all the same"


def test_no_environment_no_success(sandbox: Sandbox) -> None:
    for script in ("scripts/test", "scripts/demo", ".ci/run"):
        done = sandbox.run(script)
        assert done.returncode != 0
        assert "no Python 3.11" in done.stderr


def test_demo_runs_where_it_was_called(sandbox: Sandbox) -> None:
    sandbox.python()
    done = sandbox.run("scripts/demo", "--target", "gfx942")
    assert done.returncode == 0
    assert done.stdout == f"the main job in {sandbox.elsewhere}\n"
    assert sandbox.calls("main_job.py")[0].endswith("main_job.py --target gfx942")
