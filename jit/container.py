# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One file with compiled code: a sealed manifest, then named parts whose digests are in it.

Cache entries, artifacts and the plans of hipDNN's plugin are such files.  Any ZIP tool can list,
test and unpack one, but nothing here trusts what ZIP says of a file: the layout is fixed (first the
manifest, then each part at the next multiple of 64 bytes, then the directory).  So the manifest
tells where everything is, and every byte is either checked by a digest or compared with what it
has to be.  Nothing is allocated on a file's word.

The file is read as a whole, not mapped: when somebody else cuts a mapped file short, or writes into
it, its readers end by SIGBUS or see bytes that nobody has checked.  Reading 1 MB takes 0.3 ms.
The bytes are those that Python's ``zipfile`` gives.  It is not used because a cached start would
import it to read, which takes 10 ms, and because it reads what this file does not allow.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from zlib import crc32

from ..graph_api.arguments import shown
from ..graph_api.errors import ArtifactError
from .sealed import seal, unseal

__all__ = ["HEAD", "LARGEST", "MANIFEST", "Container", "DamagedError", "manifest_bytes", "pack"]

ALIGNMENT = 64
MAX_PARTS = 4096
MANIFEST = "manifest.json"
HEAD = ALIGNMENT
"""Bytes before the manifest."""
LARGEST = (1 << 31) + (32 << 20)
"""Most bytes of a file: 2 GiB of parts, the manifest, and what is around them."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}){0,3}")
_LARGEST = 1 << 31
_LARGEST_MANIFEST = 16 << 20
_LOCAL = struct.Struct("<4s5H3L2H")  # what stands before a part
_ENTRY = struct.Struct("<4s6H3L5H2L")  # one part in the directory
_END = struct.Struct("<4s4H2LH")
_DAY = 0x21  # the first of 1980: a file says nothing of the time it was made
_PADDING = 0xD935  # id of the extra field that aligns a part; Android's zipalign has it too


class DamagedError(Exception):
    """A file is not what was written: which part (``""``: the frame around them), what is wrong."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}" if file else problem)
        self.file = file
        self.problem = problem


class Container:
    """The manifest and the parts of one file; parts are checked when they are read.

    Parameters
    ----------
    data : bytes
        The whole of it.

    Attributes
    ----------
    body : dict
        The manifest, without its seal.
    size : int
        Bytes of the file.

    Raises
    ------
    DamagedError
        If it is no such file, or manifest and frame are damaged.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        manifest = data[HEAD : HEAD + manifest_bytes(data[:HEAD])]
        try:
            self.body = unseal(manifest)
        except ValueError as error:
            raise DamagedError(MANIFEST, str(error)) from None
        self._parts = self._places(len(manifest))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, in the order of the file."""
        return tuple(self._parts)

    def part(self, name: str) -> bytes:
        """Return a part; `DamagedError` if there is none such, or its digest is wrong."""
        if name not in self._parts:
            raise DamagedError(name, "is not listed in the manifest")
        begin, size, digest = self._parts[name]
        data = self._data[begin : begin + size]
        if sha256(data).hexdigest() != digest:
            raise DamagedError(name, "its bytes do not have the SHA-256 that the manifest states")
        return data

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a part in hex, as the manifest states it."""
        return self._parts[name][2]

    def verify(self) -> None:
        """Check every part; raises `DamagedError`."""
        for name in self._parts:
            self.part(name)

    def _places(self, length: int) -> dict[str, tuple[int, int, str]]:
        """Return begin, size and digest of each part, once the frame around them is checked."""
        try:
            listed = {
                str(name): (about["size"], str(about["sha256"]))
                for name, about in self.body["parts"].items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedError(MANIFEST, f"lists no parts ({shown(error)})") from None
        sizes = {MANIFEST: length, **{name: size for name, (size, _) in listed.items()}}
        if len(sizes) <= len(listed) or len(sizes) > MAX_PARTS:
            raise DamagedError(MANIFEST, f"lists {len(listed)} parts, or itself")
        for name, size in sizes.items():
            if not _NAME.fullmatch(name):
                raise DamagedError(MANIFEST, f"lists the part {shown(name)}")
            if type(size) is not int or not 0 <= size <= self.size:
                raise DamagedError(name, f"has {self.size} bytes at most, not {shown(size)}")
        begins, frame = _frame(sizes, self._crc)
        found = memoryview(self._data)
        if frame[-1][0] + len(frame[-1][1]) != self.size:
            raise DamagedError("", f"the file has {self.size} bytes, not those of its parts")
        for at, wanted in frame:
            if found[at : at + len(wanted)] != wanted:
                raise DamagedError("", "what is around its parts is damaged")
        return {name: (begins[name], size, digest) for name, (size, digest) in listed.items()}

    def _crc(self, name: str, at: int) -> int:
        """Return the CRC that stands in front of a part; that of digests is what counts."""
        del name
        field = self._data[at + 14 : at + 18]
        return int.from_bytes(field, "little")


def manifest_bytes(head: bytes) -> int:
    """Return how many bytes of manifest follow the first `HEAD` bytes of a file.

    Raises
    ------
    DamagedError
        If the file does not begin as one of these.
    """
    if len(head) < HEAD or not head.startswith(b"PK\3\4"):
        raise DamagedError("", "the file does not begin as one")
    length = int.from_bytes(head[18:22], "little")
    if length > _LARGEST_MANIFEST and not head[_LOCAL.size :].startswith(MANIFEST.encode()):
        raise DamagedError("", "the file does not begin as one")
    if length > _LARGEST_MANIFEST:
        raise DamagedError(MANIFEST, f"has {length} bytes")
    return length


def pack(body: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """Return a file; the same manifest and parts give the same bytes.

    Parameters
    ----------
    body : mapping
        The manifest, in JSON types; the list of parts is added.
    parts : mapping of str to bytes
        What is in the file, by name.

    Raises
    ------
    ArtifactError
        If it would be larger than 2 GiB.
    ValueError, TypeError
        If the manifest is not JSON.
    """
    if sum(map(len, parts.values())) > _LARGEST:
        raise ArtifactError("a file with code cannot be larger than 2 GiB; make several")
    listed = {
        name: {"size": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in parts.items()
    }
    every = {MANIFEST: seal({**body, "parts": listed}), **parts}
    sizes = {name: len(data) for name, data in every.items()}
    _, frame = _frame(sizes, lambda name, _: crc32(every[name]))
    pieces: Iterable[bytes] = every.values()
    heads = [piece for _, piece in frame]
    return b"".join([*(p for pair in zip(heads, pieces, strict=False) for p in pair), heads[-1]])


def _frame(sizes: Mapping[str, int], crc: Any) -> tuple[dict[str, int], list[tuple[int, bytes]]]:
    """Return where each part begins, and what stands around them, with its place.

    ``crc`` gives the CRC-32 of a part by its name and the place of what stands before it.
    """
    begins: dict[str, int] = {}
    frame: list[tuple[int, bytes]] = []
    directory: list[bytes] = []
    at = 0
    for part, size in sizes.items():
        name = part.encode()
        gap = -(at + _LOCAL.size + len(name)) % ALIGNMENT
        if 0 < gap < 4:  # an extra field has four bytes at least
            gap += ALIGNMENT
        extra = struct.pack("<HH", _PADDING, gap - 4) + bytes(gap - 4) if gap else b""
        facts = (20, 0, 0, 0, _DAY, crc(part, at), size, size, len(name), len(extra))
        head = _LOCAL.pack(b"PK\3\4", *facts) + name + extra
        rights = (0, 0, 0, 0o644 << 16, at)
        directory.append(_ENTRY.pack(b"PK\1\2", 0x314, *facts, *rights) + name + extra)
        frame.append((at, head))
        begins[part] = at + len(head)
        at = begins[part] + size
    entries = b"".join(directory)
    count = len(sizes)
    end = _END.pack(b"PK\5\6", 0, 0, count, count, len(entries), at, 0)
    return begins, [*frame, (at, entries + end)]
