"""The file around an artifact: a plain ZIP archive of stored parts, read with suspicion.

Any ZIP tool can list it, unpack it and test it.  What is read is narrower than what ZIP allows, so
that every byte that counts is checked before it is used and nothing is allocated on a file's word:
one disk, no compression, no encryption, no comment, plain names, parts that do not overlap.  Parts
begin at multiples of 64 bytes.

The file is read as a whole, not mapped: when somebody else cuts a mapped file short, or writes into
it, its readers end by SIGBUS or see bytes that nobody has checked.  Reading a megabyte takes
0.3 ms.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from io import BytesIO

from ...graph_api.errors import ArtifactError
from ..graph import is_artifact

__all__ = ["Container", "pack"]

ALIGNMENT = 64
MAX_PARTS = 4096

_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}){0,3}")
_END = struct.Struct("<4s4H2LH")  # end of central directory
_ENTRY = struct.Struct("<4s6H3L5H2L")  # one part in the central directory
_LOCAL = struct.Struct("<4s5H3L2H")  # what stands before a part
_UTF8 = 0x800  # the one flag that is allowed: names are UTF-8
_LARGEST = 1 << 31


class Container:
    """The parts of one archive, by name.

    Parameters
    ----------
    data : bytes
        The whole of it.
    label : str
        What error texts call it.

    Raises
    ------
    ArtifactError
        If it is no such archive, or a damaged one.
    """

    def __init__(self, data: bytes, label: str) -> None:
        self._data = data
        self.size = len(data)
        self.label = label
        self._parts = self._directory()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, in the order of the file."""
        return tuple(self._parts)

    def nbytes(self, name: str) -> int:
        """Return the size of a part; an error if there is none such."""
        return self._place(name)[1]

    def part(self, name: str) -> bytes:
        """Return the bytes of a part, which nobody has checked yet; an error if there is none."""
        offset, size = self._place(name)
        return self._data[offset : offset + size]

    def error(self, problem: str) -> ArtifactError:
        """Return the error for something that is wrong with the file."""
        return ArtifactError(f"{self.label} is no sound artifact: {problem}")

    def _place(self, name: str) -> tuple[int, int]:
        try:
            return self._parts[name]
        except KeyError:
            raise self.error(f"it has no part {name}") from None

    def _directory(self) -> dict[str, tuple[int, int]]:
        """Return offset and size of each part."""
        if self.size < _END.size or not is_artifact(self._data):
            raise self.error("it does not begin as one")
        end = self._exactly(self.size - _END.size, _END.size, "end")
        magic, disk, first, here, count, length, start, comment = _END.unpack(end)
        if magic != b"PK\5\6" or comment:
            raise self.error("its end is missing: it is cut off, or something was added")
        if disk or first or here != count or start + length + _END.size != self.size:
            raise self.error("its directory is not where its end says")
        if not 0 < count <= MAX_PARTS or length > 512 * count:
            raise self.error(f"its directory has {count} parts in {length} bytes")
        found: list[tuple[int, int, bytes]] = []
        at, directory = 0, self._exactly(start, length, "directory")
        for _ in range(count):
            offset, size, name, at = self._entry(directory, at)
            found.append((offset, size, name))
        if at != length:
            raise self.error("its directory is longer than its parts")
        return self._checked(sorted(found), start)

    def _entry(self, directory: bytes, at: int) -> tuple[int, int, bytes, int]:
        if at + _ENTRY.size > len(directory):
            raise self.error("its directory is cut off")
        fields = _ENTRY.unpack_from(directory, at)
        magic, flags, method, packed, size = fields[0], fields[3], fields[4], fields[8], fields[9]
        name_length, extra, comment, disk, offset = *fields[10:14], fields[16]
        name = directory[at + _ENTRY.size : at + _ENTRY.size + name_length]
        if magic != b"PK\1\2" or not _NAME.fullmatch(name):
            raise self.error("its directory is damaged")
        if flags & ~_UTF8 or method or packed != size or disk:
            raise self.error(f"its part {name.decode()} is not simply stored")
        return offset, size, name, at + _ENTRY.size + name_length + extra + comment

    def _checked(self, found: list[tuple[int, int, bytes]], end: int) -> dict[str, tuple[int, int]]:
        """Return where the bytes of each part lie, once it is sure that they lie there."""
        parts: dict[str, tuple[int, int]] = {}
        ends = [offset for offset, _, _ in found[1:]] + [end]
        for (offset, size, name), limit in zip(found, ends, strict=True):
            text = name.decode()
            head = self._exactly(offset, _LOCAL.size + len(name), f"part {text}")
            fields = _LOCAL.unpack_from(head)
            begin = offset + _LOCAL.size + fields[9] + fields[10]
            sound = (
                fields[0] == b"PK\3\4" and fields[9] == len(name) and fields[7:9] == (size, size)
            )
            if not sound or head[_LOCAL.size :] != name or fields[2] & ~_UTF8 or fields[3]:
                raise self.error(f"what stands before its part {text} is damaged")
            if begin + size > limit:
                raise self.error(f"its part {text} reaches into what comes after it")
            if text in parts:
                raise self.error(f"it has two parts {text}")
            parts[text] = begin, size
        return parts

    def _exactly(self, offset: int, count: int, what: str) -> bytes:
        data = self._data[offset : offset + count]
        if len(data) != count:
            raise self.error(f"its {what} is cut off")
        return data


def pack(parts: Mapping[str, bytes]) -> bytes:
    """Return an archive; the same parts give the same bytes.

    Raises
    ------
    ArtifactError
        If it would be larger than 2 GiB.
    """
    import zipfile

    if sum(map(len, parts.values())) > _LARGEST:
        raise ArtifactError("an artifact cannot be larger than 2 GiB; make one for each target")
    whole = BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, data in parts.items():
            info = zipfile.ZipInfo(name)  # of 1980, as no time is given
            info.external_attr = 0o644 << 16
            gap = -(whole.tell() + _LOCAL.size + len(name)) % ALIGNMENT
            if 0 < gap < 4:  # an extra field has four bytes at least
                gap += ALIGNMENT
            if gap:
                # 0xD935: the id that Android's zipalign uses for alignment.
                info.extra = struct.pack("<HH", 0xD935, gap - 4) + bytes(gap - 4)
            archive.writestr(info, data)
    return whole.getvalue()
