# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as the compiler ships them: read, decoded, and equal to the text beside them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hipdnn_iree.emulation import disassemble
from hipdnn_iree.emulation.decode import decode
from hipdnn_iree.emulation.elf import code_objects, read_code_object
from hipdnn_iree.emulation.encodings import ARCHES
from hipdnn_iree.emulation.errors import CodeObjectError, DecodeError
from hipdnn_iree.emulation.msgpack import unpack
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit import support
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.instructions import compare_folder
from hipdnn_iree.provider.sweep.samples import few_of, sample_problems
from hipdnn_iree.provider.sweep.suite import Case


def compiled(sample: Case, data_type: DataType, arch: str, folder: Path) -> None:
    graph = sample.graph(data_type).freeze()
    dump(graph, Target.parse(arch), folder, BuildOptions.of(settings()))


SAMPLES = {s.name: s for s in sample_problems()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix product, compiled."""
    found = tmp_path_factory.mktemp("matmul")
    compiled(SAMPLES["matmul.square"], DataType.HALF, "gfx942", found)
    return found


@pytest.fixture(scope="module")
def code_object(folder: Path) -> bytes:
    (found,) = code_objects((folder / "module.vmfb").read_bytes())
    return found


@pytest.mark.parametrize("arch", ARCHES)
def test_decoded_is_what_was_compiled(arch: str, tmp_path: Path) -> None:
    """Ten kernels: a matrix product, and many small ones."""
    for name in ("matmul.square", "resample_bwd.max_nhwc"):
        compiled(SAMPLES[name], DataType.HALF, arch, tmp_path / name)
    found = compare_folder(tmp_path)
    assert found.kernels == 10
    assert found.instructions > 500
    assert not found.different
    assert len(found.mnemonics) > 60


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHES)
def test_decoded_is_what_was_compiled_for_many(arch: str, tmp_path: Path) -> None:
    for sample in few_of(sample_problems())[::4]:
        graph = sample.graph(sample.dtypes[0]).freeze()
        if not list(support.problems(graph, Target.parse(arch))):
            compiled(sample, sample.dtypes[0], arch, tmp_path / sample.name)
    found = compare_folder(tmp_path)
    assert found.kernels > 20
    # The texts of a few are of other code (provider/sweep/instructions.py).
    assert len(found.different) <= found.kernels // 10


def test_what_is_read(folder: Path, code_object: bytes) -> None:
    hsaco = next(folder.rglob("*.hsaco")).read_bytes()
    assert code_object == hsaco  # what is shipped is what was compared
    found = read_code_object(code_object)
    (kernel,) = found.kernels.values()
    assert found.arch == "gfx942"
    assert not found.relocations
    assert kernel.entry % 256 == 0
    assert kernel.size == len(found.code(kernel))
    assert [a.kind for a in kernel.arguments[:3]] == ["global_buffer"] * 3
    assert [a.offset for a in kernel.arguments[:3]] == [0, 8, 16]
    assert kernel.kernarg_bytes == sum(a.size for a in kernel.arguments)
    assert kernel.metadata[".wavefront_size"] == 64
    assert kernel.lds_bytes == kernel.metadata[".group_segment_fixed_size"]
    assert kernel.rsrc2 >> 1 & 31 >= 2  # user registers: the address of the arguments
    last = decode(found.code(kernel), arch=found.arch, address=kernel.entry)[-1]
    assert last.mnemonic in ("s_endpgm", "s_nop")


def test_files_that_are_no_code_objects(code_object: bytes) -> None:
    assert list(code_objects(b"")) == []
    assert list(code_objects(b"\x7fELF" * 40)) == []
    with pytest.raises(CodeObjectError, match="no ELF file"):
        read_code_object(b"PK\x03\x04")
    host = bytearray(code_object)
    host[18] = 62  # x86-64
    assert list(code_objects(bytes(host))) == []
    with pytest.raises(CodeObjectError, match="none of an AMD GPU"):
        read_code_object(bytes(host))


@pytest.mark.parametrize(("flags", "name"), [(0x2F, "gfx906"), (0x41, "machine 0x41")])
def test_other_architectures(code_object: bytes, flags: int, name: str) -> None:
    other = bytearray(code_object)
    struct.pack_into("<I", other, 48, flags)
    with pytest.raises(CodeObjectError, match=f"code for {name}; emulated are gfx908"):
        read_code_object(bytes(other))


def test_what_is_cut_off(code_object: bytes) -> None:
    for length in (*range(70), len(code_object) // 2, len(code_object) - 1):
        with pytest.raises(CodeObjectError):
            read_code_object(code_object[:length])
        assert list(code_objects(code_object[:length])) == []


def test_altered_bytes(code_object: bytes) -> None:
    """Whatever is in it, it is read or refused by these errors, and never by others."""
    numbers, refused = random.Random(5), 0
    for _ in range(150):
        data = bytearray(code_object)
        for _ in range(3):
            data[numbers.randrange(len(data) if numbers.random() < 0.5 else 4096)] ^= (
                1 << numbers.randrange(8)
            )
        try:
            found = read_code_object(bytes(data))
            for kernel in found.kernels.values():
                decode(found.code(kernel), arch=found.arch, kernel=kernel.name)
        except (CodeObjectError, DecodeError):
            refused += 1
    assert refused > 15


def test_relocations_are_told_or_refused(code_object: bytes) -> None:
    (sections,) = struct.unpack_from("<Q", code_object, 40)
    entry = struct.pack("<QQq", 0x1234, 13, -8)
    data = bytearray(code_object) + entry
    # The first section, which is none, becomes a table with this entry.
    struct.pack_into("<IIQQQQI", data, sections, 0, 4, 0, 0, len(code_object), len(entry), 0)
    assert read_code_object(bytes(data)).relocations == ((0x1234, -8),)
    struct.pack_into("<Q", data, len(code_object) + 8, 1)
    with pytest.raises(CodeObjectError, match="a relocation of type 1"):
        read_code_object(bytes(data))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("c0", None),
        ("c3", True),
        ("07", 7),
        ("e0", -32),
        ("cd1234", 0x1234),
        ("d3ffffffffffffffff", -1),
        ("cb3ff8000000000000", 1.5),
        ("a3616263", "abc"),
        ("d903616263", "abc"),
        ("93010203", [1, 2, 3]),
        ("dc000101", [1]),
        ("82a16101a16202", {"a": 1, "b": 2}),
        ("de0001a16107", {"a": 7}),
    ],
)
def test_metadata(data: str, value: object) -> None:
    assert unpack(bytes.fromhex(data)) == value


@pytest.mark.parametrize("data", ["", "c1", "d9ff61", "a3", "dd7fffffff", "cd12", "91" * 4000])
def test_damaged_metadata(data: str) -> None:
    with pytest.raises(ValueError, match="metadata"):
        unpack(bytes.fromhex(data))


def test_disassemble(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "module.vmfb"
    assert disassemble.main([str(path), "--kernel", "no such"]) == 0
    assert capsys.readouterr().out == ""
    assert disassemble.main([str(path), "--kernel", "dispatch_0_"]) == 0
    out = capsys.readouterr().out
    assert out.count("gfx942, ") == 1
    assert "s_endpgm" in out
    (tmp_path / "empty").write_bytes(b"")
    for file in ("empty", "missing"):
        assert disassemble.main([str(tmp_path / file)]) == 1
    assert "holds no code object" in capsys.readouterr().err
