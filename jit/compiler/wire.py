# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages between the host and the compiler worker: a JSON header and raw bytes, framed.

The host sends one job at a time, with a number that the answer repeats.  The worker answers with
any number of ``diagnostic`` messages, sent at once so that they outlive a crash, and one
``done``; before its first job, with ``hello``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

__all__ = [
    "BUFFER_NAME",
    "IDLE_EXIT",
    "OUT_OF_MEMORY",
    "UNKNOWN_CPU",
    "Message",
    "Unframer",
    "frame",
]

# The name that diagnostics and debug information call the text by.  It becomes part of the
# module, so it is the same for all, and the same as the tool's, which reads the text from stdin.
BUFFER_NAME = "<stdin>"

# Exit status of a worker that had nothing to do for long; its memory is worth more.
IDLE_EXIT = 75

# LLVM leaves the process, with status 1, when it does not know a CPU; all it says is this.
UNKNOWN_CPU = "not a recognized processor"

# What C++ and LLVM print before they end a process that gets no more memory.
OUT_OF_MEMORY = ("std::bad_alloc", "out of memory", "MemoryError")

Message = tuple[dict[str, Any], bytes]

_PREFIX = struct.Struct("<4sIQ")  # magic, bytes of header, bytes of payload
_MAGIC = b"HIW1"


def frame(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """Return the bytes of one message."""
    head = json.dumps(header).encode()
    return _PREFIX.pack(_MAGIC, len(head), len(payload)) + head + payload


class Unframer:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take in ``data`` and yield the messages that are complete.

        Raises
        ------
        ValueError
            If the stream is not made of our messages.
        """
        self._data += data
        while self._data:
            if not self._data.startswith(_MAGIC[: len(self._data)]):
                raise ValueError(f"not a message of the worker: {bytes(self._data[:40])!r}")
            if len(self._data) < _PREFIX.size:
                return
            _, head, payload = _PREFIX.unpack_from(self._data)
            start, end = _PREFIX.size + head, _PREFIX.size + head + payload
            if len(self._data) < end:
                return
            message = json.loads(self._data[_PREFIX.size : start]), bytes(self._data[start:end])
            del self._data[:end]  # before the yield: the caller may stop at this message
            yield message
