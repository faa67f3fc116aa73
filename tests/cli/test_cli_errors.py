# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors of the command line: the right exit code, a clear text, JSON when asked for."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import hipdnn_iree
import pytest
from hipdnn_iree.graph_api import errors
from hipdnn_iree.provider.cli import exits
from hipdnn_iree.provider.cli.app import COMMANDS, app
from hipdnn_iree.provider.cli.options import Command

Cli = Callable[..., Any]
ROOT = Path(hipdnn_iree.__file__).resolve().parent.parent
GRAPH_COMMANDS = (
    ["run"],
    ["compile", "--target", "cpu"],
    ["explain"],
    ["show"],
)


def process(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Call the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "hipdnn_iree", *map(str, words)],
        encoding="utf-8",
        timeout=300,
        **{
            "env": {**os.environ, "PYTHONPATH": str(ROOT)},
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **more,
        },
    )


# ---------------------------------------------------------------------------- command lines


def test_a_command_that_is_not_there(cli: Cli) -> None:
    found = cli("rnu")
    assert found.code == 2
    assert "No such command 'rnu'; did you mean run?" in found.err
    assert "cache: clear, info, trim, verify" in cli("cache").err
    assert "cache: clear, info, trim, verify" in cli("cache", "cleanse").err
    error = cli("artifact", "--json").json()["error"]
    assert error["message"] == "Missing command; there are, in artifact: create, show, verify"


ALMOST: dict[str, list[str]] = {
    "'opt_level'": ["run", "{}", "--knob", "opt_levl=O1"],
    "'iree'": ["run", "{}", "--engine", "irre"],
    "'torch'": ["run", "{}", "--prefer", "troch"],
    "'heuristic'": ["run", "{}", "--policy", "heuristc"],
    "gfx942": ["run", "{}", "--target", "gfx943"],
    "'left side'": ["run", "{}", "--shape", "left=3"],
    "'svg'": ["show", "{}", "--format", "svgg"],
    "'zsh'": ["completion", "zhs"],
    "'tuned'": ["bench", "x.yaml", "--engines", "iree,policy:tunde"],
    "'reference'": ["bench", "x.yaml", "--engines", "iree,reference", "--baseline", "refernce"],
}
"""What a word is almost, as the error says it."""


@pytest.mark.parametrize("meant", ALMOST)
def test_a_word_that_is_almost_one(
    cli: Cli, graphs: Path, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(
        "cases: [{name: a, tensors: {x: {dims: [4]}}, nodes: [{op: relu, in: x, out: y}]}]",
        encoding="utf-8",
    )
    words = [str(graphs / "add.json") if word == "{}" else word for word in ALMOST[meant]]
    found = cli(*words)
    assert found.code == 2
    assert f"did you mean {meant}" in found.err


def test_interrupted_in_json(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "read_bytes", interrupted)
    found = cli("show", graphs / "add.json", "--json")
    assert found.code == found.json()["error"]["exit_code"] == 130
    assert found.err == "interrupted\n"


@pytest.mark.parametrize(
    "words",
    [
        ["tune", "--export", "{}/file/y"],
        ["tune", "--import", "{}"],
        ["artifact", "show", "{}"],
        ["plugin", "install", "{}/file/x"],
    ],
)
def test_every_file_that_fails_is_named(cli: Cli, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = cli(*(word.replace("{}", str(tmp_path)) for word in words), "--json")
    assert found.code == 2
    (problem,) = found.json()["error"]["problems"]
    assert problem["rule"] == "FILE-01"
    assert problem["port"].startswith(str(tmp_path))
    assert "Errno" not in found.err


def test_a_suite_that_is_no_text(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "suite").write_bytes(b"\xce\x00")
    found = cli("bench", tmp_path / "suite")
    assert found.code == 2
    assert "[SOURCE-01]" in found.err
    (tmp_path / "folder").mkdir()
    found = cli("bench", tmp_path / "folder", "--json")
    assert [p["rule"] for p in found.json()["error"]["problems"]] == ["SOURCE-02"]


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (b"", "an empty file"),
        (b" \n", "an empty file"),
        ('{"nodes": []}'.encode("utf-16"), "text in UTF-16"),
        (b"hello", "'hello' at line 1, column 1 (Expecting value)"),
        (b"{", "the end of the text at line 1, column 2 (Expecting property name"),
        (b"\xce\x80\xff", "'utf-8' codec can't decode"),
    ],
)
def test_what_is_no_json_is_named(cli: Cli, tmp_path: Path, data: bytes, got: str) -> None:
    (tmp_path / "graph").write_bytes(data)
    (problem,) = cli("show", tmp_path / "graph", "--json").json()["error"]["problems"]
    assert problem["rule"] == "JSON-01"
    assert got in problem["got"]
    assert problem["wanted"] == "strict JSON in UTF-8"


def test_a_file_that_is_huge(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate((1 << 32) + 1)  # a hole: no disk is taken
    found = cli("show", path)
    assert found.code == 2
    assert "[FILE-03] got 4,294,967,297 bytes" in found.err


def test_a_target_that_is_empty(cli: Cli, graphs: Path) -> None:
    found = cli("compile", graphs / "add.json", "--target", "cpu,")
    assert "unknown target ''; known: cpu, gfx908" in found.err


# ---------------------------------------------------------------------------- graph files


@pytest.mark.parametrize("words", GRAPH_COMMANDS, ids=" ".join)
def test_files_that_are_no_graph(cli: Cli, words: list[str], tmp_path: Path) -> None:
    contents = {
        "empty": (b"", "JSON-01"),
        "garbage": (b"\x00\xff\xfe" * 100, "WIRE-02"),
        "text": (b"hello", "JSON-01"),
        "array": (b"[]", "JSON-02"),
        "truncated": (b'{"nodes": [{"type": "Matmul', "JSON-01"),
        "flatbuffer": (bytes.fromhex("14000000100014000800050006000700"), "WIRE-02"),
    }
    for name, (content, rule) in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        found = cli(*words, path, "--json")
        assert found.code == 2
        error = found.json()["error"]
        assert (error["code"], error["error"]) == ("E200", "FormatError")
        assert error["problems"][0]["rule"] == rule, name
        damage = "this is not a hipDNN graph" if rule[:4] == "JSON" else "the buffer is damaged"
        assert found.err.startswith(f"error [E200]: {path}: {damage}")


@pytest.mark.parametrize("words", GRAPH_COMMANDS, ids=" ".join)
def test_files_that_cannot_be_read(cli: Cli, words: list[str], tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    secret.chmod(0)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    cases = {
        tmp_path / "missing.json": "No such file or directory",
        tmp_path: "Is a directory",
        loop: "Too many levels of symbolic links",
        "nul\0l": "nul",
    }
    if os.geteuid():  # root reads everything
        cases[secret] = "Permission denied"
    for path, reason in cases.items():
        found = cli(*words, path, "--json")
        assert found.code == 2
        (problem,) = found.json()["error"]["problems"]
        assert problem["rule"] == "FILE-01"
        assert reason in problem["got"]
        assert "cannot read" in found.err


def test_permission_denied(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    found = cli("show", graphs / "add.json")
    assert found.code == 2
    assert "permission denied [FILE-01]" in found.err


def test_all_problems_of_a_graph_are_told(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    data = json.loads((graphs / "add.json").read_text(encoding="utf-8"))
    for tensor in data["tensors"][:2]:
        tensor["dims"] = [0, 0, 0, 0]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(data))
    found = cli("explain", path, "--json")
    assert found.code == 2
    error = found.json()["error"]
    assert (error["code"], error["exit_code"]) == ("E100", 2)
    assert len(error["problems"]) >= 2
    assert found.err.count("\n  ") >= 2


# ---------------------------------------------------------------------------- exit codes, text


def test_every_error_has_an_exit_code() -> None:
    for name in errors.__all__:
        cls = getattr(errors, name)
        if isinstance(cls, type) and issubclass(cls, errors.HipdnnIreeError):
            code = exits.exit_code(cls.__new__(cls))
            assert code in exits.EXIT_CODES
            assert (code == exits.INTERNAL) == (cls is errors.HipdnnIreeError)
    assert exits.exit_code(RuntimeError()) == exits.INTERNAL


def test_an_internal_error(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the first line\nand more")

    monkeypatch.setattr("hipdnn_iree.provider.graph_files.loads", fail)
    found = cli("show", graphs / "add.json")
    assert (found.code, found.out) == (5, "")
    assert found.err.splitlines() == [
        "internal error: RuntimeError: the first line",
        "this is a bug; repeat it with --traceback and report what it shows",
    ]
    found = cli("show", graphs / "add.json", "--json")
    assert found.json() == {
        "error": {
            "code": "E900",
            "error": "RuntimeError",
            "message": "the first line",
            "exit_code": 5,
        }
    }
    for words in (["--traceback", "show"], ["show", "--traceback"]):
        found = cli(*words, graphs / "add.json")
        assert found.code == 5
        assert "Traceback (most recent call last)" in found.err
        assert "in fail" in found.err
    assert "Traceback" in cli("show", "nothing", "--traceback").err


def test_a_package_that_is_missing(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'iree.runtime'", name="iree.runtime")

    monkeypatch.setattr("hipdnn_iree.provider.engines.iree.iree_engine.compile_source", fail)
    found = cli("run", graphs / "add.json")
    assert found.code == 3
    assert "No module named 'iree.runtime'; `hipdnn-iree env` shows what is installed" in found.err
    assert cli("compile", graphs / "add.json", "--target", "cpu").code == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["run"], "Missing argument 'GRAPH'"),
        (["run", "g", "--no-such"], "No such option"),
        (["run", "g", "--repeat", "0"], "--repeat"),
        (["run", "g", "--seed", "-1"], "--seed"),
        (["run", "g", "--target", "gpu"], "unknown target 'gpu'"),
        (["run", "g", "--timeout", "never"], "a positive number of seconds"),
        (["cache"], "Missing command"),
        (["targets", "extra"], "unexpected extra argument"),
    ],
)
def test_bad_usage(cli: Cli, words: list[str], text: str) -> None:
    found = cli(*words)
    assert (found.code, found.out) == (2, "")
    assert text in found.err
    assert "Usage: hipdnn-iree" in found.err
    assert "--help' says more" in found.err
    found = cli(*words, "--json")
    assert found.code == 2
    error = found.json()["error"]
    assert error["exit_code"] == 2
    assert text in error["message"]
    assert "Usage:" not in found.err


def test_a_setting_that_is_bad(cli: Cli, graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_COMPILER_TIMEOUT_S", "soon")
    for words in (
        ["run", graphs / "add.json"],
        ["cache", "info"],
        ["explain", graphs / "add.json"],
        ["engines"],  # settings say where engines of others are looked for
    ):
        found = cli(*words, "--json")
        assert found.code == 2
        assert found.json()["error"]["code"] == "E800"
        assert "HIPDNN_IREE_COMPILER_TIMEOUT_S is 'soon'" in found.err
    # What needs no settings works.
    assert cli("targets").code == cli("show", graphs / "add.json").code == 0


# ---------------------------------------------------------------------------- talk


def test_the_log_goes_to_stderr(
    cli: Cli, graphs: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compile", graphs / "add.json", "--target", "cpu", "--json", "--cache", "off"]
    assert cli(*words).err == ""
    found = cli(*words, "-v")
    assert found.json()
    assert "info: compiling add for cpu" in found.err
    assert "debug: " not in found.err
    assert "info: compiling add for cpu" in cli("-v", *words).err
    monkeypatch.setenv("HIPDNN_IREE_LOG_LEVEL", "info")
    assert "info: compiling add for cpu" in cli(*words).err


def test_variables_that_are_no_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_OPT_LEVEl", "O1")
    monkeypatch.setenv("HIPDNN_IREE_XYZZY", "1")
    found = cli("targets", "--json")
    assert found.json()
    assert found.err.splitlines() == [
        "warning: HIPDNN_IREE_OPT_LEVEl is no setting; did you mean HIPDNN_IREE_OPT_LEVEL?",
        "warning: HIPDNN_IREE_XYZZY is no setting",
    ]


def test_colour_is_for_terminals_only() -> None:
    code = (
        "import sys\n"
        "class Terminal(type(sys.stdout)):\n"
        "    def isatty(self): return True\n"
        "sys.stdout = Terminal(sys.stdout.buffer)\n"
        "from hipdnn_iree.provider.cli.main import main\n"
        "main(['targets'])\n"
    )
    plain = {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
    for extra, coloured in ({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False):
        words = [sys.executable, "-c", code]
        found = subprocess.run(words, env={**plain, **extra}, capture_output=True, timeout=300)
        assert found.returncode == 0, found.stderr
        assert (b"\x1b[" in found.stdout) == coloured
    assert "\x1b" not in process("targets").stdout


def test_progress_is_shown_on_a_terminal(graphs: Path) -> None:
    """On stderr, and log lines stand by themselves; stdout is a pipe and stays clean."""
    terminal, stderr = pty.openpty()
    shown: list[bytes] = []

    def listen() -> None:
        with contextlib.suppress(OSError):  # how Linux tells the end
            while data := os.read(terminal, 4096):
                shown.append(data)

    listener = threading.Thread(target=listen)
    listener.start()
    more = ["--target", "gfx908", "--cache", "off", "--json", "-v"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    found = process("compile", graphs / "add.json", *more, stderr=stderr, env=env)
    os.close(stderr)
    listener.join()
    os.close(terminal)
    assert found.returncode == 0
    assert json.loads(found.stdout)["targets"][0]["target"] == "gfx908"
    text = b"".join(shown).decode()
    assert "compiling for gfx908 …" in text
    assert "\x1b[2Kinfo: compiling add for gfx908" in text


# ---------------------------------------------------------------------------- processes


def test_module_and_version(tmp_path: Path) -> None:
    found = process("--version", cwd=tmp_path)
    assert found.stdout == f"hipdnn-iree, version {hipdnn_iree.__version__}\n"
    found = process(cwd=tmp_path)
    assert found.returncode == 0
    assert found.stdout.startswith("Usage: hipdnn-iree [OPTIONS] COMMAND")
    assert all(f"\n  {name} " in found.stdout for name in COMMANDS)


def test_a_reader_that_goes_away() -> None:
    for words in (["targets"], ["targets", "--json"], ["--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            found = process(*words, stdout=writer)
        finally:
            os.close(writer)
        assert (found.returncode, found.stderr) == (141, "")


def test_output_that_cannot_be_written(graphs: Path) -> None:
    for words in (["targets"], ["show", graphs / "add.json"]):
        with open("/dev/full", "wb") as full:
            found = process(*words, stdout=full)
        assert found.returncode == 2
        assert found.stderr == "error [E200]: No space left on device\n"
    words = [sys.executable, "-m", "hipdnn_iree", "engines"]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        timeout=300,
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


@pytest.mark.usefixtures("interruptible")
def test_interrupted(until: Callable[[Callable[[], object]], None]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "hipdnn_iree", "-v", "show", "-"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HIPDNN_IREE_XYZZY": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        assert b"XYZZY" in running.stderr.readline()  # it has started
        pipe = running.stdin.fileno()
        os.write(pipe, b"{")
        # Taken from the pipe: it reads and waits for the rest.
        until(lambda: fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert (out, err) == (b"", b"interrupted\n")


def test_text_that_the_terminal_cannot_show(graphs: Path, tmp_path: Path) -> None:
    data = json.loads((graphs / "bf16.json").read_text(encoding="utf-8"))
    data["name"] = "日本 é \U0001f525"
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    words = [sys.executable, "-m", "hipdnn_iree"]
    for more in (["explain"], ["explain", "--json"], ["show", "--json"], ["show"]):
        found = subprocess.run([*words, *more, path], env=env, capture_output=True, timeout=300)
        assert (found.returncode, found.stderr) == (0, b"")
        if "--json" in more:
            shown = json.loads(found.stdout)
            assert (shown.get("graph") or shown)["name"] == data["name"]


# ---------------------------------------------------------------------------- start-up


STARTED = """
import sys
import termios
sys.argv = ["hipdnn-iree"]
from hipdnn_iree.provider.cli.main import main
try:
    main({words!r})
except SystemExit as event:
    code = event.code
print(code, *sorted(sys.modules), file=sys.stderr)
"""
CHEAP = (
    *(["--help"], ["run", "--help"], ["--version"], ["engines"], ["targets"], ["env"]),
    *(["cache", "info"], ["cache", "verify"], ["env", "--json"]),
)


def started(words: list[str], before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", before + STARTED.format(words=words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.mark.parametrize("words", CHEAP, ids=" ".join)
def test_what_needs_no_compiler_loads_none(words: list[str]) -> None:
    """Each of these takes about 0.1 s; NumPy alone would add as much again."""
    found = started(words)
    code, *modules = found.stderr.split()
    assert code == "0"
    heavy = {"numpy", "ml_dtypes", "iree", "torch_mlir", "torch", "onnx", "rich"}
    assert not heavy & {name.partition(".")[0] for name in modules}


def test_show_and_explain_load_no_compiler(graphs: Path) -> None:
    show = started(["show", str(graphs / "add.json")])
    assert show.stderr.startswith("0 ")
    assert not {"numpy", "iree", "torch_mlir"} & set(show.stderr.split())
    explain = started(["explain", str(graphs / "add.json")])
    assert explain.stderr.startswith("0 ")
    assert not {"iree", "torch_mlir"} & set(explain.stderr.split())


def test_without_click() -> None:
    block = "import sys; sys.modules['click'] = None\n"
    found = started(["env"], block)
    assert found.stderr.startswith("hipdnn-iree: the package click is missing")
    about = json.loads(found.stdout)
    assert about["python"]["executable"] == sys.executable
    found = started(["run", "x"], block)
    assert found.stdout == ""
    assert found.stderr.splitlines()[1].startswith("5 ")


def test_without_numpy_and_iree(graphs: Path) -> None:
    block = "import sys; sys.modules.update(numpy=None, iree=None, torch_mlir=None, rich=None)\n"
    found = started(["env", "--json"], block)
    assert found.stderr.startswith("0 ")
    assert json.loads(found.stdout)["python"]["executable"] == sys.executable
    found = started(["run", str(graphs / "add.json")], block)
    assert "numpy" in found.stderr
    assert "`hipdnn-iree env` shows what is installed" in found.stderr
    assert found.stderr.splitlines()[-1].startswith("3 ")


# ---------------------------------------------------------------------------- help


def commands(group: click.Group, *path: str) -> list[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, *path, name)
    return found


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*c, id=" ".join(c[0])) for c in commands(app)]
)
def test_help_says_everything(cli: Cli, path: tuple[str, ...], command: click.Command) -> None:
    found = cli(*path, "--help")
    assert found.code == 0
    assert found.out == cli(*path, "-h").out
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{path}: {option.name}"
    names = {name for p in command.params for name in p.opts}
    assert {"--json", "-v", "--traceback"} <= names
    if not isinstance(command, click.Group):
        assert isinstance(command, Command)
    if path in (("run",), ("compile",)):
        for knob in ("CACHE", "CACHE_DIR", "OPT_LEVEL", "EXTRA_FLAGS", "COMPILER_TIMEOUT_S"):
            assert f"HIPDNN_IREE_{knob};" in found.out
