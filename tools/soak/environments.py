# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nonsense in the environment: the documented default, or an error that names the variable.

Where the attack runs as root, it gives up root's way into closed folders.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from hipdnn_iree.graph_api.errors import DeviceError, HipdnnIreeError, SettingError
from hipdnn_iree.hipdnn_plugin.devices import place_of
from hipdnn_iree.jit.settings import HIPDNN_PREFIX, KNOBS, PREFIX, settings
from hipdnn_iree.provider.cli.exits import BAD_INPUT
from hipdnn_iree.provider.graph import Graph
from hipdnn_iree.provider.selection.select import candidates, choose

from tools.soak.attack import BrokenError, Inputs, limit_memory
from tools.soak.commands import command

__all__ = ["environment", "graph_file", "make", "replay", "run"]

_OTHERS = ("LD_LIBRARY_PATH", "ROCM_PATH", "HIPDNN_PLUGIN_DIR", "XDG_CACHE_HOME", "HOME",
           "IREE_HIP_DYLIB_PATH", "CC", "TMPDIR", "COLUMNS", "LINES", "TERM", "NO_COLOR", "LANG",
           "FORCE_COLOR")  # fmt: skip
_OURS = tuple(knob.env for knob in KNOBS)
_TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "-0",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "1e-400",
    "0x10",
    "1_000",
    "+5",
    "2.5",
    "9" * 5000,
    "9" * 20,
    "9223372036854775808",
    "٣",
    "½",
    "TRUE",
    "on ",
    "of",
    "auto",
    "none",
    "\n",
    "\t",
    "\r\n",
    "a b",
    ",",
    ",,",
    ":",
    "::",
    "=",
    "=,=",
    "x=y,x=z",
    "all=all",
    "matmul=",
    "--",
    "--x",
    "--x=y",
    "-o",
    "'unclosed",
    '"',
    "\\",
    "$HOME",
    "`x`",
    "*",
    "%s",
    "{}",
    "é",
    "\u202e",
    "\U0001f600",
    "x" * 300,
    "x" * 100_000,
    "~",
    "~/x",
    "~nobody/x",
    "~no such user/x",
    "~~",
    ".",
    "..",
    "/",
    "//",
    "/dev/null",
    "/dev/full",
    "/proc/self/mem",
    "/nonexistent/x",
    "/" + "x/" * 3000,
    "file:/x",
    "DEBUG",
    "5K",
    "5KiB",
    "-5G",
    "1e9G",
    "9" * 4000 + "T",
    "O4",
    "O3,O2",
    "iree",
    "-1,0",
    "cpu",
    "hip",
    "0b1",
)
_BYTES = (b"\xff\xfe", b"\x80", b"/\xff/x", b"\xed\xa0\x80", b"on\xff", b"~\xff/x")
_PLACES = ("file", "folder", "closed", "closed/x", "loop", "pipe", "dangling", "readonly",
           "readonly/x/y", "file/x")  # fmt: skip


@cache
def graph_file() -> Path:
    """Make what variables point to; return a graph file."""
    here = Path.cwd()
    (here / "file").write_text("text")
    for name, mode in {"folder": 0o777, "closed": 0, "readonly": 0o555, "home": 0o777}.items():
        (here / name).mkdir()
        (here / name).chmod(mode)
    (here / "loop").symlink_to("loop")
    (here / "dangling").symlink_to("nowhere")
    os.mkfifo(here / "pipe", 0o666)
    graph = Graph("environments", io_data_type="float")
    graph.relu(graph.tensor(dims=(4, 4), name="x")).set_output()
    path = here / "home" / "graph.json"
    path.write_text(graph.to_json())
    here.chmod(0o755)
    return path


def make(rng: Random) -> bytes:
    """Return an environment: one variable with nonsense, or a few."""
    found = {}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        name = rng.choice(_OURS) if rng.random() < 0.7 else rng.choice(_OTHERS)
        draw = rng.random()
        if draw < 0.55:
            value = rng.choice(_TEXTS).encode()
        elif draw < 0.65:
            value = rng.choice(_BYTES)
        else:
            value = b"./" + rng.choice(_PLACES).encode()
            if draw > 0.8:
                value = rng.choice((value, b":" + value + b":", value + b"," + value))
        found[name] = value.hex()
    if rng.random() < 0.1:
        found[f"{PREFIX}{rng.choice(('FORMS', 'CACHEDIR', '', 'X' * 1000))}"] = b"1".hex()
    return json.dumps(found).encode()


@contextlib.contextmanager
def environment(case: bytes) -> Iterator[None]:
    """Hold an environment for a while."""
    home = graph_file().parent
    before = dict(os.environb)
    os.environ["HOME"] = str(home)
    os.environ.pop(f"{PREFIX}CACHE_DIR", None)
    for name, value in json.loads(case).items():
        data = bytes.fromhex(value)
        if data.startswith(b"./"):
            data = os.fsencode(Path.cwd()) + data[1:]
        os.environb[name.encode()] = data
    try:
        yield
    finally:
        os.environb.clear()
        os.environb.update(before)


def _named(error: HipdnnIreeError, case: bytes) -> None:
    """Raise unless each line of an error of a setting names a variable that was set."""
    lines = str(error).split("\n")
    known = set(json.loads(case))
    for line in lines:
        found = re.match(r"([A-Z_]+) is ", line)
        if found and found[1] not in known:
            raise BrokenError(f"{found[1]} was not set: {line:.200}")
    if not any(name in str(error) for name in known):
        raise BrokenError(f"no variable is named: {error!s:.300}")


def judge(case: bytes) -> Iterator[str]:
    """Yield what each question gives in an environment."""
    path = graph_file()
    graph = Graph.from_json(path.read_text()).freeze()
    cwd = set(os.listdir())
    with environment(case):
        try:
            now = settings()
        except SettingError as error:
            _named(error, case)
            yield "settings: refused"
            code, said = command(["explain", str(path)])
            if code != BAD_INPUT or "E800" not in said:
                raise BrokenError(f"explain ended with {code}: {said[:300]}") from error
            yield "command: refused"
        else:
            yield "settings: taken"
            for question in (
                lambda: choose(graph, "cpu", now),
                lambda: candidates(graph, "cpu", now),
                lambda: place_of(0, now.plugin_device),
            ):
                yield _asked(question, case)
            for words in (["engines"], ["explain", str(path)], ["cache", "info"]):
                code, _ = command([*words, "--json"])
                yield f"command: {words[0]} {code}"
        command(["env", "--json"])
    if new := set(os.listdir()) - cwd:
        raise BrokenError(f"made in the working folder: {sorted(new)[:3]}")
    yield "environment"


def _asked(question: Callable[[], object], case: bytes) -> str:
    try:
        question()
    except SettingError as error:
        _named(error, case)
        return "question: a setting is refused"
    except DeviceError:
        return "question: no device"
    except HipdnnIreeError as error:
        return f"question: {type(error).__name__}"
    return "question: answered"


def _without_override() -> None:
    """Give up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which open every folder to root."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        sets[0] &= ~0b110
        libc.capset(header, sets)


def _start() -> None:
    limit_memory()
    _without_override()
    logging.getLogger("hipdnn_iree").propagate = False  # one line for each place that is none
    logging.getLogger("hipdnn_iree").addHandler(logging.NullHandler())
    for name in [v for v in os.environ if v.startswith((PREFIX, HIPDNN_PREFIX))]:
        del os.environ[name]


inputs = Inputs(make, judge, _start)
run, replay = inputs.run, inputs.replay
