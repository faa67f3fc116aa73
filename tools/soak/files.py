# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged files of every kind but graphs: a clear error, or used as far as they are valid.

Two rules.  What a user asked for by name (a suite, an artifact, a file to import) is refused with
an error of ours.  What is looked at in passing (measured times, rules, cache entries, remembered
answers) never stops a build: it is skipped with one warning at most.

Of sealed files the manifest is damaged and sealed again, as no checksum is a proof of anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from hipdnn_iree.graph_api.errors import (
    ArtifactError,
    BindError,
    FormatError,
    GraphError,
    NotPrecompiledError,
    NotSupportedError,
)
from hipdnn_iree.graph_api.formats.json.json_form import dumps
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.hipdnn_plugin import payload
from hipdnn_iree.jit.cache.size_journal import SizeJournal
from hipdnn_iree.jit.container import MANIFEST, Container, _frame, pack
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import compile_source, store
from hipdnn_iree.jit.sealed import seal
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.artifacts.artifact import Artifact
from hipdnn_iree.provider.artifacts.save import packed
from hipdnn_iree.provider.cli.files import read_inputs
from hipdnn_iree.provider.engines.foreign import probe
from hipdnn_iree.provider.engines.foreign.probe_report import Found, Report, Trial
from hipdnn_iree.provider.graph import Graph
from hipdnn_iree.provider.selection.candidate import Candidate
from hipdnn_iree.provider.selection.engine_rules import read_rules
from hipdnn_iree.provider.selection.exchange import export, import_file
from hipdnn_iree.provider.selection.select import build, candidates, choose
from hipdnn_iree.provider.selection.winner_entry import Entry
from hipdnn_iree.provider.selection.winners import remember, winners, written
from hipdnn_iree.provider.sweep import suite

from tools.soak.attack import BrokenError, Inputs, limit_memory
from tools.soak.commands import command
from tools.soak.mutators import as_json, damaged, mutated

__all__ = ["KINDS", "replay", "run"]

_SUITES = Path(__file__).resolve().parents[2] / "suites"
_CPU = Target.parse("cpu")
_MOST_TEXT = 300_000
REFUSED = (ArtifactError, FormatError, GraphError, NotSupportedError)
"""What a file that somebody named may be refused with."""


@dataclass(frozen=True)
class Kind:
    """One kind of file.

    Attributes
    ----------
    seeds : callable
        Returns sound ones.
    damage : callable
        From a generator of random numbers, a sound file and another one to a damaged one.
    judge : callable
        Returns the outcome in a word or two; raises for what must not come of the file.
    """

    seeds: Callable[[], tuple[bytes, ...]]
    damage: Callable[[Random, bytes, bytes], bytes]
    judge: Callable[[bytes], str]


# ---------------------------------------------------------------------------- damage


def _either(
    inner: Callable[[Random, bytes, bytes], bytes], rng: Random, one: bytes, other: bytes
) -> bytes:
    """Damage the bytes, or what they mean."""
    return damaged(rng, one, other) if rng.random() < 0.3 else inner(rng, one, other)


def _json(rng: Random, one: bytes, other: bytes) -> bytes:
    text = as_json(mutated(rng, json.loads(one), json.loads(other)))
    draw = rng.random()
    if draw < 0.05:  # what no value of Python is written as
        numbers = [b"1e999", b"-1e999", b"NaN", b"1" * 5000, b"-0", b"[" * 3000, b'{"a":' * 3000]
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(numbers) + text[at:]
    elif draw < 0.1:
        text = text.replace(b"0", rng.choice((b"1e400", b"9" * 400, b"NaN")), rng.choice((1, 2, 9)))
    elif draw < 0.12:
        text = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0")) + text
    return text


_BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
)
_WORDS = ("&a ", "*a", "<<: *a", "!!python/name:os.system", "!!binary x", "!!set", "!!timestamp x",
          "? ", "- ", "%YAML 9.9\n", "---\n", "...\n", "[", "]", "{", "}", ": ", "|", ">", "'", '"',
          "\t", ".nan", ".inf", "1e999", "0x" + "f" * 400, "9" * 5000, "~", "2001-01-01", "1:20:30",
          "!!float x", "!!int ", "!!float ''", "\u2028", "\0", "= ", "1_0", "[" * 500,
          "2001-99-99", "0b", "0o9", "!!int x", "9:9:9", "!!null x", "!!bool x")  # fmt: skip


def _yaml(rng: Random, one: bytes, other: bytes) -> bytes:
    draw = rng.random()
    if draw < 0.6:
        data = mutated(rng, yaml.safe_load(one), yaml.safe_load(other))
        if draw < 0.05:  # one value is in many places
            data = {"shared": data, "cases": [data] * rng.choice((2, 30))}
        with contextlib.suppress(yaml.YAMLError, ValueError, RecursionError):
            return as_json(data) if draw < 0.55 else yaml.safe_dump(data).encode()
    lines = one.decode().split("\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        column = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:column] + rng.choice(_WORDS) + lines[at][column:]
        if rng.random() < 0.1:
            lines[at:at] = [rng.choice(lines)] * rng.choice((1, 100))
    text = "\n".join(lines)
    if rng.random() < 0.04:
        use = rng.choice(("cases: [*a9]", "cases:\n  - {name: x, op: *a9}", "title: *a9",
                          "cases:\n  - {name: x, nodes: *a9}", "cases:\n  - {name: *a9}",
                          "cases:\n  - {name: x, op: relu, in_0: *a9}", "cases: &c [{cases: *c}]",
                          "cases: *a9", "dtypes: *a9\ncases: [{name: x}]"))  # fmt: skip
        text = f"{_BOMB}\n{use}\n"
    return text.encode("utf-8", "surrogatepass")


def _sealed(rng: Random, one: bytes, other: bytes) -> bytes:
    """Damage a manifest and seal it again, so that no checksum tells."""
    box = Container(one)
    parts = {name: box.part(name) for name in box.names}
    body = {key: value for key, value in box.body.items() if key != "parts"}
    theirs = Container(other).body
    if rng.random() < 0.3:
        listed = mutated(rng, box.body["parts"], theirs["parts"])
    else:
        listed = box.body["parts"]
        changed = mutated(rng, body, theirs)
        body = changed if isinstance(changed, dict) else {"body": changed}
    if rng.random() < 0.05:
        parts = {name: damaged(rng, data, one) for name, data in parts.items()}
        with contextlib.suppress(TypeError, ValueError):
            return pack(body, parts)
    with contextlib.suppress(TypeError, ValueError):
        every = {MANIFEST: seal({**body, "parts": listed}), **parts}
        _, frame = _frame({name: len(data) for name, data in every.items()}, lambda *_: 0)
        pieces = zip((head for _, head in frame), (*every.values(), b""), strict=True)
        return b"".join(piece for pair in pieces for piece in pair)
    return damaged(rng, one, other)


def _npz(rng: Random, one: bytes, other: bytes) -> bytes:
    """Write an archive whose arrays are not what their headers say, or far too large."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in rng.sample(
            ("a", "a.npy", "b", "b.npy", "1.npy", "c", "../a", ".npy", "a" * 900), 3
        ):
            shape = rng.choice(("(4, 8)", "(8, 4)", "(-4, -8)", "()", "4", f"({2**70},)", "None",
                                f"({2**31},)", "(4, 8)" * 3000, "[4, 8]", "(4.0, 8)"))  # fmt: skip
            kind = rng.choice(("<f4", "<f4", ">f4", "<f8", "|O", "|V4", "|V0", "<U999999999", "x",
                               [("a", "<f4")], [("a", "|O")], "<M8[s]", "|S0"))  # fmt: skip
            head = f"{{'descr': {kind!r}, 'fortran_order': {rng.choice((0, 1, False, True))}, "
            text = (head + f"'shape': {shape}, }}\n").encode()
            version = rng.choice((1, 1, 1, 2, 3, 4))
            length = rng.choice((len(text),) * 9 + (0, 2**16 - 1)) % 2**16
            magic = rng.choice((b"\x93NUMPY",) * 9 + (b"",)) + bytes((version, 0))
            data = bytes(rng.choice((0, 127, 128, 128, 129, 1 << 20)))
            size = length.to_bytes(2 if version == 1 else 4, "little")
            archive.writestr(name, magic + size + text + data)
    return damaged(rng, whole.getvalue(), one) if rng.random() < 0.1 else whole.getvalue()


def _journal(rng: Random, one: bytes, other: bytes) -> bytes:
    lines = one.split(b"\n")
    lines[rng.randrange(len(lines))] = rng.choice(
        (b"", b"=", b"-1", b"9" * 18, b"9" * 4000, b"x", b"=5", b"1e3", "٣".encode(), b"\0", b" 1")
    )
    return b"\n".join(lines) * rng.choice((1, 1, 1, 500))


# ---------------------------------------------------------------------------- the problem


@cache
def _graph() -> FrozenGraph:
    """Return a small graph that all files are about."""
    graph = Graph("files", io_data_type="float")
    a, b = graph.tensor(dims=(4, 8), name="a"), graph.tensor(dims=(8, 4), name="b")
    product = graph.matmul(a, b, name="product")
    graph.relu(product).set_output()
    return graph.freeze()


class _Warnings(logging.Handler):
    """Counts warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@contextlib.contextmanager
def _one_warning() -> Iterator[_Warnings]:
    handler, log = _Warnings(), logging.getLogger("hipdnn_iree")
    log.addHandler(handler)
    passed_on, log.propagate = log.propagate, False
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.propagate = passed_on
    if len(handler.texts) > 1:
        raise BrokenError(f"{len(handler.texts)} warnings: {handler.texts[:2]}")
    if handler.texts and len(handler.texts[0]) > 5000:
        raise BrokenError(f"a warning of {len(handler.texts[0])} characters")


def _said(error: Exception) -> str:
    """Return the outcome for an error of ours, if it says what is wrong."""
    text = str(error)
    if not text or len(text) > _MOST_TEXT:
        raise BrokenError(f"an error text of {len(text)} characters: {text[:200]}")
    problems = getattr(error, "problems", None)
    rule = f" {problems[0].rule}" if problems else ""
    return f"{type(error).__name__}{rule}"


def _file(name: str, data: bytes) -> Path:
    path = Path(name).absolute()
    path.write_bytes(data)
    return path


# ---------------------------------------------------------------------------- measured times, rules


@cache
def _measured() -> tuple[bytes, ...]:
    found = [c for c in candidates(_graph(), _CPU, settings()) if c.served]
    entries = [_entry(c, float(3 + i)) for i, c in enumerate(found)]
    one = [_entry(found[0], 5.0)]
    return tuple(written(some).encode() for some in (entries, one, []))


def _entry(candidate: Candidate, median: float) -> Entry:
    times = (median - 1, median, median + 1)
    return Entry.of(candidate, times, 10, estimated_us=median, model=1)


def _judge_winners(data: bytes) -> str:
    path = _file("winners.json", data)
    with scope(engine_winners=path), _one_warning() as warned:
        chosen = choose(_graph(), _CPU, settings())
        choose(_graph(), _CPU, settings(), policy="tuned,heuristic")
        candidates(_graph(), _CPU, settings())
    known = winners(path)
    export(Path("exported"), path, form="hipdnn")
    read_rules(Path("exported").read_text())
    remember([_entry(chosen, 2.0)], path)
    again = {(e.place, e.engine_id) for e in winners(path).entries}
    if not {(e.place, e.engine_id) for e in known.entries} <= again or not again:
        raise BrokenError("sound entries are lost when others are remembered")
    try:
        import_file(_file("import.json", data), Path("imported.json"))
    except FormatError as error:
        return f"winners: {_said(error)}"
    return f"winners: {'warned' if warned.texts else 'used'}"


@cache
def _rules() -> tuple[bytes, ...]:
    path = _file("seed.json", _measured()[0])
    export(Path("rules.json"), path, form="hipdnn")
    sound = json.loads(Path("rules.json").read_text())
    positional: dict[str, Any] = json.loads(json.dumps(sound))
    positional["version"] = 1
    anything: dict[str, Any] = json.loads(json.dumps(sound))
    for rule in anything["engine_overrides"]:
        for tensor in rule["tensors"]:
            tensor["dim"] = [-1] * len(tensor["dim"])
    return tuple(json.dumps(some).encode() for some in (sound, positional, anything))


def _judge_rules(data: bytes) -> str:
    path = _file("rules.json", data)
    with scope(engine_config=path), _one_warning() as warned:
        found = choose(_graph(), _CPU, settings(), policy="config,order")
    return f"rules: {'warned' if warned.texts else found.policy}"


# ---------------------------------------------------------------------------- suites


# Few cases, as reading a mutant builds the graphs of all.
_WITH_AXES = b"""
dtypes: {cpu: float, gfx9: half}
sets: {stages: [[a, 8, 6], [b, 16, 5]]}
cases:
  - for: {"stage c hw": stages, n: [1, 3], f: {from: 1, to: 3, step: 2}}
    let: {pad: f // 2}
    where: f * c <= 40
    layouts: [contiguous, channels_last]
    cases:
      - {name: "{stage}_conv", op: conv_fprop, x: [n, c, hw, hw], w: [2 * c, c, f, f], padding: pad}
  - {name: drawn, random: {count: 3, seed: 5}, for: {m: {from: 1, to: 64, log: true}}, op: relu,
     x: [m, 2 * m]}
"""


@cache
def _suites() -> tuple[bytes, ...]:
    files = [*_SUITES.glob("ops/*.yaml"), *_SUITES.glob("*.yaml")]
    small = sorted(path for path in files if path.stat().st_size < 7000 and path.stem != "random")
    return (*(path.read_bytes() for path in small), _WITH_AXES)


@cache
def _included() -> Path:
    """Return a folder with few problems of each kind: `nightly` includes all of its own folder.

    Reading the 8,400 that are there takes 3.5 s, 0.4 ms each; no mutant is to blame for it.
    """
    found = Path("included").absolute()
    found.mkdir()
    shutil.copy(_SUITES / "random.yaml", found)
    for kind in ("ops", "networks"):
        (found / kind).mkdir()
        paths = sorted((_SUITES / kind).glob("*.yaml"), key=lambda path: path.stat().st_size)
        for path in paths[:_MOST_INCLUDED]:
            shutil.copy(path, found / kind)
    return found


_MOST_INCLUDED = 6


def _judge_suite(data: bytes) -> str:
    try:
        found = suite.read(data, source="suite", folder=_included())
    except FormatError as error:
        return f"suite: {_said(error)}"
    return f"suite: {'read' if found.cases else 'empty'}"


# ---------------------------------------------------------------------------- compiled code


@cache
def _artifacts() -> tuple[bytes, ...]:
    plans = [
        build(_graph(), _CPU, settings(), engine="iree", knobs=knobs)
        for knobs in ({}, {"opt_level": "O0"})
    ]
    return tuple(packed(some) for some in (plans, plans[:1]))


def _judge_artifact(data: bytes) -> str:
    try:
        found = Artifact(data, "it")
        repr(found), found.targets, found.nbytes, found.manifest.as_dict()
        for record in found.plans:
            found.why_not_here(record)
        found.verify()
        found.plan("cpu")
    except REFUSED as error:
        return f"artifact: {_said(error)}"
    return "artifact: read"


def _judge_plan(data: bytes) -> str:
    try:
        payload.load(data, _CPU)
    except (ArtifactError, NotSupportedError) as error:
        return f"plan: {_said(error)}"
    return "plan: read"


def _options() -> BuildOptions:
    return BuildOptions.of(settings())


def _stored() -> Path:
    _artifacts()
    found = compile_source(_graph(), _CPU, _options())
    options = _options().cache
    return store(options)._layout.entry(found.key.digest)


@cache
def _entries() -> tuple[bytes, ...]:
    data = _stored().read_bytes()
    return data, data


@cache
def _place() -> Path:
    return _stored()


def _judge_entry(data: bytes) -> str:
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    with scope(cache_require_precompiled=True), _one_warning():
        try:
            found = compile_source(_graph(), _CPU, _options())
        except NotPrecompiledError:
            return "entry: a miss"
        json.dumps([found.sha256, found.signature.as_dict(), dict(found.statistics)])
        place.write_bytes(data)
    shelf = store(_options().cache)
    shelf.verify()
    shelf.info()
    return "entry: a hit"


@contextlib.contextmanager
def _here() -> Iterator[int]:
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def _judge_journal(data: bytes) -> str:
    _file("sizes", data)
    total = SizeJournal(_here, _here).add(3)
    if total is not None and total < 3:
        raise BrokenError(f"{total} bytes")
    return f"sizes: {'to be counted' if total is None else 'a number'}"


# ---------------------------------------------------------------------------- remembered answers


@cache
def _reports() -> tuple[bytes, ...]:
    sound = Report(
        path="/plugin.so",
        usable=True,
        name="a plugin",
        version="1.0",
        api_version="1.0.0",
        era="n25",
        engines=(Found(1, "one"), Found(-5, "")),
        features=("f",),
        said=("it said",),
    )
    return json.dumps(sound.as_dict()).encode(), json.dumps({"problem": None, "said": []}).encode()


def _judge_answer(data: bytes) -> str:
    """Put an answer where it is remembered; nobody is asked, so that a bad one is none."""
    now = settings()
    file = probe._file(["k"], now)
    assert file is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    report, trial = probe._recall(["k"], now, Report), probe._recall(["k"], now, Trial)
    if report is not None:
        json.dumps(report.as_dict()), hash(report)
        [engine.id % 2**64 for engine in report.engines]
    return f"answer: {'used' if report or trial else 'asked again'}"


# ---------------------------------------------------------------------------- the command line


@cache
def _any() -> tuple[bytes, ...]:
    """Return a file of each kind; the command line does not know what it is given."""
    graph = dumps(_graph()).encode()
    return (graph, *_measured()[:1], *_suites()[:4], *_artifacts()[:1], *_rules()[:1])


def _damage_any(rng: Random, one: bytes, other: bytes) -> bytes:
    """Damage a file by the means of its kind, or not at all: then it is of the wrong kind."""
    if rng.random() < 0.1:
        return one
    if one.startswith(b"PK"):
        return _sealed(rng, one, one)
    if one.startswith(b"{"):
        return _json(rng, one, one)
    return _yaml(rng, one, one) if rng.random() < 0.5 else damaged(rng, one, other)


_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("show", "FILE"),
    ("show", "FILE", "--json"),
    ("explain", "FILE"),
    ("artifact", "show", "FILE"),
    ("artifact", "verify", "FILE"),
    ("tune", "--import", "FILE"),
    ("compile", "FILE", "--require-precompiled", "on"),
    ("bench", "FILE", "--case", "no case has this name"),
    ("cache", "verify"),
)


def _judge_command(data: bytes) -> str:
    path = str(_file("input", data))
    words = _COMMANDS[sum(data) % len(_COMMANDS)]
    with scope(engine_winners=Path("cli-winners.json").absolute()):
        code, _ = command([path if word == "FILE" else word for word in words])
    return f"command: {words[0]} {code}"


# ---------------------------------------------------------------------------- arrays


@cache
def _arrays() -> tuple[bytes, ...]:
    found = []
    for kind in ("float32", "float64"):
        file = io.BytesIO()
        np.savez(file, a=np.zeros((4, 8), kind), b=np.zeros((8, 4), kind))
        found.append(file.getvalue())
    return tuple(found)


def _judge_arrays(data: bytes) -> str:
    try:
        read_inputs(str(_file("inputs.npz", data)), _graph())
    except (BindError, FormatError) as error:
        return f"arrays: {_said(error)}"
    return "arrays: read"


# ---------------------------------------------------------------------------- the table

KINDS: dict[str, Kind] = {
    "winners": Kind(_measured, partial(_either, _json), _judge_winners),
    "rules": Kind(_rules, partial(_either, _json), _judge_rules),
    "suite": Kind(_suites, partial(_either, _yaml), _judge_suite),
    "artifact": Kind(_artifacts, partial(_either, _sealed), _judge_artifact),
    "plan": Kind(_artifacts, partial(_either, _sealed), _judge_plan),
    "entry": Kind(_entries, partial(_either, _sealed), _judge_entry),
    "sizes": Kind(lambda: (b"=100\n20\n",), partial(_either, _journal), _judge_journal),
    "answer": Kind(_reports, partial(_either, _json), _judge_answer),
    "arrays": Kind(_arrays, partial(_either, _npz), _judge_arrays),
    "command": Kind(_any, _damage_any, _judge_command),
}


def make(rng: Random, names: tuple[str, ...] = tuple(KINDS)) -> bytes:
    """Return a damaged file, with its kind in front."""
    name = rng.choice(names)
    kind = KINDS[name]
    seeds = kind.seeds()
    data = kind.damage(rng, rng.choice(seeds), rng.choice(seeds))
    return name.encode() + b"\n" + data


def judge(case: bytes) -> Iterator[str]:
    """Yield what became of a file; raise for what must not come of it."""
    name, _, data = case.partition(b"\n")
    yield KINDS[name.decode()].judge(data)


def _start() -> None:
    """Read each undamaged file once, so that what is imported then is not counted or limited."""
    for kind in KINDS.values():
        for data in kind.seeds():
            kind.judge(data)
    limit_memory()


inputs = Inputs(make, judge, _start)
run, replay = inputs.run, inputs.replay
