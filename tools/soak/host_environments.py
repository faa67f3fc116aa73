# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nonsense in the environment of a host in C: it lives, and each call has a status and a text."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from struct import Struct

from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era
from hipdnn_iree.provider.graph import Graph

from tools.host.driver import Host, engine_config
from tools.soak.attack import BrokenError, Budget, Result, attempt, limit_memory, many
from tools.soak.environments import environment, graph_file, make

__all__ = ["replay", "run"]

_HANGS_S = 120.0
_LENGTH = Struct("<I")
_OUR_FAULTS = ("Traceback", "Fatal", "bug of hipdnn-iree", "E900")


class _Attack:
    def __init__(self, budget: Budget) -> None:
        limit_memory()
        self.host = Host(budget.scratch)
        data = encode(Graph.from_json(graph_file().read_text()).freeze(), Era.NODE)
        self.config = budget.scratch / "config"
        self.config.write_bytes(engine_config())
        self.corpus = budget.scratch / "corpus"
        self.corpus.write_bytes(_LENGTH.pack(len(data)) + data)

    def judge(self, case: bytes) -> Iterator[str]:
        """Yield what starting, and then asking about a graph, gives in an environment."""
        before = set(os.listdir())
        started = self._facts("start", case=case)
        if started["status"] == "0":
            answers = os.path.abspath("answers")
            self._facts("fuzz", self.config, self.corpus, answers, case=case)
            with open(answers, encoding="utf-8", errors="replace") as file:
                line = file.readline()
            os.remove(answers)
            _clean(line)
            yield f"asked: {line[:3].strip() or 'no plan'}"
        else:
            _clean(started["error"])
            if not _named(started["error"], case):
                raise BrokenError(f"no variable is named: {started['error']:.300}")
            yield f"refused: {started['status']}"
        if new := set(os.listdir()) - before:
            raise BrokenError(f"made in the working folder: {sorted(new)[:3]}")

    def _facts(self, *words: object, case: bytes) -> dict[str, str]:
        with environment(case):
            try:
                done = subprocess.run(
                    self.host.words(*words),
                    env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_HANGS_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise BrokenError(f"{words[0]} hangs") from None
        out, said = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        _clean(out + said)
        # What fails is an expectation of the host's, and the text of the error stands beside it.
        if done.returncode and not (done.returncode == 1 and _named(out, case)):
            raise BrokenError(
                f"{words[0]} ended with {done.returncode}: {out[-900:]} {said[-900:]}"
            )
        return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


def _named(text: str, case: bytes) -> bool:
    return any(name in text for name in json.loads(case))


def _clean(text: str) -> None:
    if any(word in text for word in _OUR_FAULTS):
        raise BrokenError(text[-900:])


def run(budget: Budget, seed: int) -> Result:
    """Attack until the time is over."""
    return many(budget, seed, make, _Attack(budget).judge)


def replay(budget: Budget, case: bytes) -> Result:
    """Try one environment."""
    found = Result()
    attempt(found, budget, case, _Attack(budget).judge)
    return found
