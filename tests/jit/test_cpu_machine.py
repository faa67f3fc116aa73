# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of CPUs: by LLVM's names, and of the one that runs this."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipdnn_iree import Target
from hipdnn_iree.jit import cpu_machine as module
from hipdnn_iree.jit.cpu_machine import CpuMachine, cpu_machine


@pytest.mark.parametrize(
    ("name", "vector_bytes", "l2_kib", "bfloat16"),
    [
        ("sapphirerapids", 64, 2048, True),
        ("icelake-server", 64, 2048, False),
        ("skylake-avx512", 64, 1024, False),
        ("cooperlake", 64, 1024, True),
        ("skylake", 32, 512, False),
        ("znver5", 64, 1024, True),
        ("znver3", 32, 512, False),
        ("x86-64-v4", 64, 1024, False),
        ("x86-64-v3", 32, 512, False),
        ("x86-64", 16, 256, False),
        ("nobody-knows", 16, 256, False),
    ],
)
def test_names(name: str, vector_bytes: int, l2_kib: int, *, bfloat16: bool) -> None:
    found = cpu_machine(Target.parse(f"cpu:{name}"))
    assert found.has_bfloat16 is bfloat16
    assert (found.vector_bytes, found.l2_bytes) == (vector_bytes, l2_kib << 10)
    assert found.lanes == vector_bytes // 4
    assert found.registers == (32 if vector_bytes == 64 else 16)


def described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, *caches: str, maker: str = ""
) -> CpuMachine:
    """Return the host as Linux would describe it: caches as "level type size"."""
    for i, text in enumerate(caches):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, value in zip(("level", "type", "size"), text.split(), strict=True):
            (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(module, "_CACHES", tmp_path)
    monkeypatch.setattr(module, "cpuinfo", lambda: {"flags": flags, "vendor_id": maker})
    cpu_machine.cache_clear()
    try:
        return cpu_machine(Target.parse("cpu"))
    finally:
        cpu_machine.cache_clear()


def test_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = ("1 Instruction 32K", "1 Data 48K", "2 Unified 2M", "3 Unified 260M")
    found = described(tmp_path, monkeypatch, "sse2 avx2 avx512f", *caches)
    assert found == CpuMachine(64, 48 << 10, 2 << 20)


def test_a_host_that_multiplies_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = described(tmp_path, monkeypatch, "sse2 avx2 avx512f avx512_bf16")
    assert found.has_bfloat16


@pytest.mark.parametrize(("maker", "intel"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_who_makes_the_host(
    maker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, intel: bool
) -> None:
    assert described(tmp_path, monkeypatch, "avx2", maker=maker).is_intel == intel


@pytest.mark.parametrize("name", ["sapphirerapids", "skylake-avx512", "skylake", "arrowlake"])
def test_names_of_intel(name: str) -> None:
    assert cpu_machine(Target.parse(f"cpu:{name}")).is_intel
    assert not cpu_machine(Target.parse("cpu:znver4")).is_intel


def test_a_host_that_says_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = described(tmp_path, monkeypatch, "sse2 avx2", "1 Data many")
    assert found == CpuMachine(32, 32 << 10, 256 << 10)
