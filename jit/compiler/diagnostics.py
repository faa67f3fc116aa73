# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading the compiler's diagnostics: which node, what is wrong, without the IR dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .wire import BUFFER_NAME

__all__ = ["clean", "crash_reason", "find_node"]

_LABEL = re.compile(r'"(n\d+)"')
_POSITION = re.compile(rf"{re.escape(BUFFER_NAME)}:(\d+):\d+: ")
_GIVEN = re.compile(r"-:(\d+):(\d+): ")  # of a module that somebody gave (`emit.mlir_file`)
_LINE_LOC = re.compile(r"loc\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:\{|$)")
_ALIAS = re.compile(r"#loc\d*\b")
_ILLEGAL = re.compile(r"failed to legalize operation '([^']+)'.*", re.DOTALL)
_TORCH_NAME = re.compile(r'name = "([^"]+)"')
_DUMP = re.compile(r"[:,]?\s*(?:%\S+ = |\"[\w.]+\"\().*", re.DOTALL)
_ATTRIBUTES = re.compile(r" #hal\.executable\.target<\"([^\"]+)\".*", re.DOTALL)
_FATAL = re.compile(
    r"^(?:LLVM ERROR: .*|.*Assertion .* failed.*|\w+Error: .*|.*'[^']+' is not a "
    r"recognized processor.*|terminate called .*|fatal error: .*|.*: error: .*)$",
    re.MULTILINE,
)
_LONGEST = 600  # characters of one message


def clean(text: str, nodes: Mapping[str, str]) -> str:
    """Return one diagnostic as a single line for a reader who has never seen the IR.

    The location becomes the node's name, dumps of operations are dropped, and notes other than
    "see current operation" are kept.

    >>> clean('loc("n0"): bad\\n\\nloc("n0"): see current operation: %0 = "x"() : () -> ()',
    ...       {"n0": "relu"})
    'relu: bad'
    """
    first, *notes = text.split("\n\n")
    where, what = _split(first)
    kept = [_shorten(what)]
    for note in notes:
        message = _shorten(_split(note)[1])
        if message and not message.startswith("see current operation") and message not in kept:
            kept.append(message)
    line = "; ".join(filter(None, kept))
    if (found := _LABEL.search(where)) is not None:
        where = nodes.get(found[1], found[1])
    elif (place := _GIVEN.match(f"{where}: ")) is not None:
        where = f"line {place[1]}, column {place[2]}"
    elif where.startswith("loc("):
        where = ""
    where = where.replace(BUFFER_NAME, "module.mlir")  # as the reproducer calls it
    line = f"{where}: {line}" if where else line
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def find_node(texts: Iterable[str], source: str, nodes: Mapping[str, str]) -> str:
    """Return the name of the node that the first telling diagnostic points at, or ``""``.

    Parameters
    ----------
    texts : iterable of str
        Errors as the compiler gave them.
    source : str
        The module, for errors that have only a line number.
    nodes : mapping of str to str
        Location label to node name; a label that is not in it stands for itself.
    """
    lines = source.splitlines()
    for text in texts:
        where = _split(text)[0]
        label = _LABEL.search(where)
        if label is None and (position := _POSITION.match(f"{where}: ")) is not None:
            label = _label_of_line(lines, int(position[1]) - 1)
        if label is not None:
            return nodes.get(label[1], label[1])
    # A graph of one node leaves no doubt.
    return next(iter(nodes.values())) if len(set(nodes.values())) == 1 else ""


def crash_reason(stderr: str) -> str:
    """Return the line that says why the compiler ended, or ``""``."""
    found = _FATAL.search(stderr)
    return _shorten(found[0].strip()) if found else ""


def _label_of_line(lines: list[str], index: int) -> re.Match[str] | None:
    if not 0 <= index < len(lines) or (at := _LINE_LOC.search(lines[index])) is None:
        return None
    place = at[1]
    if (alias := _ALIAS.search(place)) is not None:
        place = next((line for line in lines if line.startswith(f"{alias[0]} = ")), "")
    return _LABEL.search(place)


def _split(text: str) -> tuple[str, str]:
    """Return location and message of a diagnostic."""
    if (position := _POSITION.match(text) or _GIVEN.match(text)) is not None:
        return position[0][:-2], text[position.end() :]
    if not text.startswith("loc("):
        return "", text
    depth, quoted = 0, False
    for i, char in enumerate(text):
        if char == '"':
            quoted = not quoted  # inside quotes MLIR writes a quote as \22
        elif not quoted:
            depth += (char == "(") - (char == ")")
            if char == ")" and depth == 0:
                return text[: i + 1], text[i + 1 :].removeprefix(": ")
    return "", text


def _shorten(message: str) -> str:
    if (illegal := _ILLEGAL.search(message)) is not None:
        name = _TORCH_NAME.search(illegal[0]) if illegal[1] == "torch.operator" else None
        op = name[1] if name else illegal[1]
        return f"{message[: illegal.start()]}the compiler has no lowering for '{op}' here"
    message = _ATTRIBUTES.sub(r" \1", message)
    return " ".join(_DUMP.sub("", message).split())
