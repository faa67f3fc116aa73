# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code objects, the ELF files that kernels are shipped in: what is where, and metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .encodings import ARCHES
from .errors import CodeObjectError
from .msgpack import unpack

__all__ = ["Argument", "CodeObject", "Kernel", "code_objects", "read_code_object"]

_MAGIC = b"\x7fELF"
_AMDGPU, _LOAD, _NOTE, _SYMTAB, _DYNSYM, _RELA = 224, 1, 4, 2, 11, 4
_TABLES = (_SYMTAB, _DYNSYM, _RELA)
_METADATA = 32  # type of the note
# What an altered file may cost: each table is read once, and memory is little more than the file.
_SLACK = 1 << 24  # bytes of memory beyond those of the file: padding between segments
_SEGMENTS, _SECTIONS = 64, 1024
_NAME = 4096  # bytes of a symbol's name
_ARGUMENTS = 1 << 16  # bytes of a kernel's arguments
_RELATIVE64 = 13  # type of a relocation: the load address and an addend
# e_flags & 0xff -> architecture; others are named so that an error can say them.
_MACHINES = {
    0x02C: "gfx900",
    0x02F: "gfx906",
    0x030: "gfx908",
    0x03F: "gfx90a",
    0x040: "gfx940",
    0x04B: "gfx941",
    0x04C: "gfx942",
    0x04F: "gfx950",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel, as its metadata has it.

    Attributes
    ----------
    offset, size : int
        Bytes in the block of arguments.
    kind : str
        ``global_buffer``, ``by_value``, ``hidden_block_count_x`` and so on.
    name : str
        Empty where the compiler gave none.
    """

    offset: int
    size: int
    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: where its code is, and how a wave of it starts.

    Attributes
    ----------
    name : str
    entry : int
        Address of its first instruction, in `CodeObject.image`.
    size : int
        Bytes of its instructions.
    descriptor : int
        Address of its descriptor, which launches name.
    lds_bytes, scratch_bytes, kernarg_bytes : int
        Fixed sizes: LDS of a workgroup, scratch of a work-item, the block of arguments.
    rsrc1, rsrc2, rsrc3 : int
        The words ``COMPUTE_PGM_RSRC1`` to ``3``: registers, float modes, what is preloaded.
    properties : int
        The bits of ``KERNEL_CODE_PROPERTIES``: which user registers are set, in their order.
    preload : int
        ``KERNARG_PRELOAD``: length (7 bits) and offset (9 bits) of the arguments that are put
        into registers, in words.
    arguments : tuple of Argument
    metadata : mapping
        All that the metadata says of it, such as ``.vgpr_count`` and ``.wavefront_size``.
    """

    name: str
    entry: int
    size: int
    descriptor: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload: int
    arguments: tuple[Argument, ...]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A code object as it lies in memory when it was loaded at address 0.

    Attributes
    ----------
    arch : str
        One of ``ARCHES``.
    image : bytes
        Its loaded segments.
    kernels : mapping of str to Kernel
        By name, in the order of their addresses.
    relocations : tuple of (int, int)
        Place and addend: 64 bits of the image that become the load address plus the addend.
    """

    arch: str
    image: bytes
    kernels: Mapping[str, Kernel]
    relocations: tuple[tuple[int, int], ...] = ()

    def code(self, kernel: Kernel) -> bytes:
        """Return the instructions of one of its kernels."""
        return self.image[kernel.entry : kernel.entry + kernel.size]


def code_objects(data: bytes) -> Iterator[bytes]:
    """Yield the code objects in a file that holds some, such as a module of IREE's (.vmfb).

    They lie in it uncompressed, so they are found by their first bytes and as long as their own
    header says: this follows no container's format, which change with the compiler.
    """
    at = data.find(_MAGIC)
    while at >= 0:
        size = _size(data[at : at + 64])
        if size and at + size <= len(data):
            yield data[at : at + size]
        at = data.find(_MAGIC, at + (size or 4))


def _size(header: bytes) -> int:
    """Return the length of an AMD GPU's ELF file, whose last part are the section headers."""
    if len(header) < 64 or header[4:6] != b"\x02\x01" or header[18:20] != b"\xe0\x00":
        return 0
    (sections,) = struct.unpack_from("<Q", header, 40)
    size, count = struct.unpack_from("<HH", header, 58)
    return int(sections + size * count)


_DAMAGE = (struct.error, LookupError, ValueError, TypeError, AttributeError, OverflowError)


def read_code_object(data: bytes) -> CodeObject:
    """Read a code object.

    Parameters
    ----------
    data : bytes
        The ELF file.

    Raises
    ------
    CodeObjectError
        If it is none, is for another GPU, or is not whole.
    """
    try:
        return _read(data)
    except _DAMAGE as error:
        # Offsets that lead nowhere, and metadata of other kinds than a compiler writes.
        raise CodeObjectError(f"the code object is damaged: {error}") from error


def _read(data: bytes) -> CodeObject:
    if data[:4] != _MAGIC:
        raise CodeObjectError("no ELF file")
    if data[4:6] != b"\x02\x01" or data[18:20] != b"\xe0\x00":
        raise CodeObjectError("an ELF file, but none of an AMD GPU")
    flags = struct.unpack_from("<I", data, 48)[0] & 0xFF
    arch = _MACHINES.get(flags, f"machine {flags:#x}")
    if arch not in ARCHES:
        raise CodeObjectError(f"code for {arch}; emulated are {', '.join(ARCHES)}")
    whole = _size(data[:64])
    if len(data) < whole:
        raise CodeObjectError(f"the code object is cut off: {len(data)} of {whole} bytes")
    segments, sections = _headers(data)
    loads = [segment for segment in segments if segment[0] == _LOAD]
    end = max((address + memory for _, _, address, _, memory in loads), default=0)
    if end > len(data) + _SLACK:
        raise CodeObjectError(f"a segment ends at {end:#x}, in a file of {len(data)} bytes")
    if sum(stored for _, _, _, stored, _ in loads) > len(data):
        raise CodeObjectError("segments overlap in the file")
    image, notes = bytearray(end), dict[str, Any]()
    for kind, offset, address, size, memory in segments:
        if offset + size > len(data) or (size > memory and kind == _LOAD):
            raise CodeObjectError("a segment is beyond the end of the file")
        if kind == _LOAD:
            image[address : address + size] = data[offset : offset + size]
        elif kind == _NOTE:
            notes = _note(data[offset : offset + size]) or notes
    symbols = _symbols(data, sections)
    loaded = bytes(image)
    kernels = [_kernel(entry, symbols, loaded) for entry in notes.get("amdhsa.kernels", ())]
    if not kernels:
        raise CodeObjectError("the code object has no kernels")
    kernels.sort(key=lambda kernel: kernel.entry)
    relocations = _relocations(data, sections, len(loaded))
    return CodeObject(arch, loaded, {kernel.name: kernel for kernel in kernels}, relocations)


Segment = tuple[int, int, int, int, int]  # kind, offset, address, bytes in the file, in memory
Section = tuple[int, int, int, int]  # type, offset, size, index of a linked section


def _headers(data: bytes) -> tuple[list[Segment], list[Section]]:
    programs, sections = struct.unpack_from("<QQ", data, 32)
    size, count, each, number = struct.unpack_from("<HHHH", data, 54)
    if (size, each) != (56, 64) or count > _SEGMENTS or number > _SECTIONS:
        raise CodeObjectError(f"{count} segments of {size} bytes, {number} sections of {each}")
    found = []
    for i in range(count):
        kind, _, offset, address, _, stored, memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, programs + i * size
        )
        found.append((kind, offset, address, stored, memory))
    tables = []
    for i in range(number):
        _, kind, _, _, offset, length, link = struct.unpack_from(
            "<IIQQQQI", data, sections + i * each
        )
        tables.append((kind, offset, length, link))
    if sum(length for kind, _, length, _ in tables if kind in _TABLES) > len(data):
        raise CodeObjectError("tables are larger than the file")
    return found, tables


def _note(data: bytes) -> dict[str, Any]:
    """Return the metadata among the notes of a segment."""
    at = 0
    while at + 12 <= len(data):
        name, size, kind = struct.unpack_from("<III", data, at)
        at += 12
        owner = data[at : at + name].rstrip(b"\0")
        at += -(-name // 4) * 4
        if owner == b"AMDGPU" and kind == _METADATA:
            found = unpack(data[at : at + size])
            return found if isinstance(found, dict) else {}
        at += -(-size // 4) * 4
    return {}


def _symbols(data: bytes, sections: list[Section]) -> dict[str, tuple[int, int]]:
    """Return address and size of what is named."""
    found = {}
    for kind, offset, size, link in sections:
        if kind not in (_SYMTAB, _DYNSYM):
            continue
        names = sections[link][1]
        for at in range(offset, offset + size, 24):
            name, _, _, _, address, length = struct.unpack_from("<IBBHQQ", data, at)
            end = data.index(b"\0", names + name, names + name + _NAME)
            found[data[names + name : end].decode()] = (address, length)
    return found


def _relocations(data: bytes, sections: list[Section], image: int) -> tuple[tuple[int, int], ...]:
    found = []
    for kind, offset, size, _ in sections:
        for at in range(offset, offset + size, 24) if kind == _RELA else ():
            place, info, addend = struct.unpack_from("<QQq", data, at)
            if info & 0xFFFFFFFF != _RELATIVE64:
                raise CodeObjectError(f"a relocation of type {info & 0xFFFFFFFF}")
            if place + 8 > image:
                raise CodeObjectError(f"a relocation at {place:#x}, of {image} bytes")
            found.append((place, addend))
    return tuple(found)


def _kernel(
    entry: Mapping[str, Any], symbols: Mapping[str, tuple[int, int]], image: bytes
) -> Kernel:
    name, symbol = entry[".name"], entry[".symbol"]
    descriptor, _ = symbols[symbol]
    lds, scratch, kernarg, _, start = struct.unpack_from("<IIIIq", image, descriptor)
    rsrc3, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", image, descriptor + 44)
    code, size = symbols[name]
    if code != descriptor + start or code % 256 or code + size > len(image):
        raise CodeObjectError(f"{name}: its descriptor does not point at its code")
    if kernarg > _ARGUMENTS:
        raise CodeObjectError(f"{name}: {kernarg} bytes of arguments, the limit is {_ARGUMENTS}")
    arguments = tuple(_argument(a, kernarg) for a in entry.get(".args", ()))
    return Kernel(
        name=name,
        entry=code,
        size=size,
        descriptor=descriptor,
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        rsrc1=rsrc1,
        rsrc2=rsrc2,
        rsrc3=rsrc3,
        properties=properties,
        preload=preload,
        arguments=arguments,
        metadata=entry,
    )


def _argument(entry: Mapping[str, Any], kernarg: int) -> Argument:
    offset, size, kind = entry[".offset"], entry[".size"], entry[".value_kind"]
    name = entry.get(".name", "")
    if [type(x) for x in (offset, size, kind, name)] != [int, int, str, str]:
        raise CodeObjectError(f"an argument at {offset!r} of {size!r} bytes, of kind {kind!r}")
    if min(offset, size) < 0 or offset + size > kernarg:
        raise CodeObjectError(f"an argument at {offset} of {size} bytes, of {kernarg} in all")
    return Argument(offset, size, kind, name)
