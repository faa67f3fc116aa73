# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Altered and cut-off code objects: only errors of this package, in bounded memory and steps."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from compiled_product import Product
from hipdnn_iree.emulation.decode import decode
from hipdnn_iree.emulation.elf import CodeObject, code_objects, read_code_object
from hipdnn_iree.emulation.errors import CodeObjectError, DecodeError, EmulationError
from hipdnn_iree.emulation.program import read_program

from tools.soak.mutators import damaged


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Product:
    return Product("gfx942", tmp_path_factory.mktemp("product"))


_EXTREME = (0, 1, 7, 63, 0xFF, 0xFFFF, 0x10000, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)


def _fields(data: bytes) -> list[tuple[int, str]]:
    """Return place and format of every number in the headers, and of the kernels' descriptors."""
    programs, sections = struct.unpack_from("<QQ", data, 32)
    count, number = struct.unpack_from("<H", data, 56)[0], struct.unpack_from("<H", data, 60)[0]
    head = zip((24, 32, 40, 48, 52, 54, 56, 58, 60, 62), "QQQIHHHHHH", strict=True)
    segment = tuple(zip((0, 4, 8, 16, 24, 32, 40, 48), "IIQQQQQQ", strict=True))
    section = tuple(zip((0, 4, 8, 16, 24, 32, 40, 44, 56), "IIQQQQIIQ", strict=True))
    found = list(head)
    for first, size, parts, many in (
        (programs, 56, segment, count),
        (sections, 64, section, number),
    ):
        found += [(first + size * i + at, form) for i in range(many) for at, form in parts]
    (kernel,) = read_code_object(data).kernels.values()  # a descriptor lies where it is loaded
    return found + [(kernel.descriptor + at, "I") for at in range(0, 64, 4)]


def _altered(data: bytes, fields: list[tuple[int, str]], numbers: random.Random) -> bytes:
    """Return the file with one to three numbers of its headers replaced."""
    found = bytearray(data)
    for at, form in numbers.choices(fields, k=numbers.choice((1, 1, 2, 3))):
        size = struct.calcsize(form)
        (old,) = struct.unpack_from(f"<{form}", found, at)
        near = (old + 1, old - 1, old * 2, old // 2, old + len(data), len(data))
        new = numbers.choice((*_EXTREME, *near)) % (1 << 8 * size)
        struct.pack_into(f"<{form}", found, at, new)
    return bytes(found)


def _read(data: bytes) -> list[CodeObject]:
    return [read_code_object(whole) for whole in [data, *code_objects(data)]]


@pytest.mark.parametrize("how", ["headers", "anywhere", "metadata", "cut off"])
def test_damaged_files_are_read_or_refused(product: Product, how: str) -> None:
    data, numbers = product.file, random.Random(how)
    metadata = data.index(b"amdhsa.kernels")
    end = data.index(b"amdhsa.version", metadata) + 64

    fields = _fields(data)

    def within(_: random.Random) -> bytes:
        return data[:metadata] + damaged(numbers, data[metadata:end], data) + data[end:]

    change: dict[str, Callable[[random.Random], bytes]] = {
        "headers": lambda dice: _altered(data, fields, dice),
        "anywhere": lambda dice: damaged(dice, data, data),
        "metadata": within,
        "cut off": lambda dice: data[: dice.randrange(len(data))],
    }
    seen: Counter[str] = Counter()
    codes: list[CodeObject] = []
    peak = 0
    for _ in range(60):
        changed = change[how](numbers)
        tracemalloc.start()
        try:
            codes += _read(changed)
        except EmulationError as error:
            seen[type(error).__name__ if str(error) else "without a text"] += 1
        finally:
            peak = max(peak, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    for code in codes[::2]:  # a file is read twice: as it is, and found within itself
        for name in code.kernels:
            with suppress(DecodeError):
                read_program(code, name)
            seen["read"] += 1
    assert peak < 100 << 20
    assert not seen["without a text"]
    assert seen["CodeObjectError"] > 5, seen
    assert seen["read"] > 5 or how == "cut off", seen


def _with(data: bytes, **numbers: int) -> bytes:
    places = {"segment_size": 54, "segments": 56, "section_size": 58, "sections": 60}
    found = bytearray(data)
    for name, value in numbers.items():
        struct.pack_into("<H", found, places[name], value)
    return bytes(found)


@pytest.mark.parametrize(
    "numbers",
    [
        {"section_size": 0, "sections": 65535},
        {"segment_size": 0, "segments": 65535},
        {"segments": 65},
        {"section_size": 24},
    ],
    ids=str,
)
def test_headers_do_not_make_work(product: Product, numbers: dict[str, int]) -> None:
    """Thousands of tables over the same bytes would take hours."""
    with pytest.raises(CodeObjectError, match=r"segments of \d+ bytes|damaged|cut off"):
        read_code_object(_with(product.file, **numbers))


def test_memory_is_that_of_the_file(product: Product) -> None:
    data = bytearray(product.file)
    (programs,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    loads = [i for i in range(count) if struct.unpack_from("<I", data, programs + 56 * i)[0] == 1]
    memory = programs + 56 * loads[-1] + 40
    struct.pack_into("<Q", data, memory, 1 << 27)
    with pytest.raises(CodeObjectError, match="a segment ends at"):
        read_code_object(bytes(data))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"\xa7.offset\x08", b"\xa7.offset\x7f", "an argument at 127 of 8 bytes, of"),
        (b"\xa7.offset\x08", b"\xa7.offset\xff", "an argument at -1 "),
        (b"\xa7.offset\x08", b"\xa7.offset\xc3", "an argument at True"),
        (b"\xadglobal_buffer", b"\x9d" + b"\x01" * 13, "of kind \\["),
    ],
)
def test_arguments_lie_in_their_block(product: Product, old: bytes, new: bytes, why: str) -> None:
    assert old in product.file
    with pytest.raises(CodeObjectError, match=why):
        read_code_object(product.file.replace(old, new, 1))


def test_damaged_kernels_are_executed_or_refused(product: Product) -> None:
    """Whatever an instruction has become, what it raises names kernel, address and instruction."""
    code = read_code_object(product.file)
    (kernel,) = code.kernels.values()
    numbers, seen = random.Random(7), Counter[str]()
    plain, nameless = code.code(kernel), list[str]()
    for _ in range(150):
        changed = bytearray(plain)
        for _ in range(numbers.choice((1, 2, 4))):
            at = numbers.randrange(0, len(changed) // 2, 4) + numbers.randrange(4)
            changed[at] ^= 1 << numbers.randrange(8)
        try:
            found = decode(bytes(changed), arch=code.arch, address=kernel.entry, kernel=kernel.name)
            instructions = {one.address: one for one in found}
            product.run(replace(product.program, instructions=instructions))
            seen["executed"] += 1
        except EmulationError as error:
            seen[type(error).__name__] += 1
            nameless += [str(error)] * (not str(error).startswith(kernel.name))
    assert not nameless
    assert seen["executed"] > 10, seen
    assert seen["EmulationError"] > 10, seen
    assert seen["DecodeError"] > 5, seen
