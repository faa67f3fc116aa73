# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets: spellings, canonical form, facts, errors, and the digest of the host CPU."""

from __future__ import annotations

import builtins
import io
import pickle
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.jit import target as target_module
from hipdnn_iree.jit.target import GFX9_ARCHS, GFX9_SKUS, Target, cpu_features

SPELLINGS = [
    ("cpu", "cpu", "llvm-cpu", "host", ""),
    ("CPU:Host", "cpu", "llvm-cpu", "host", ""),
    (" cpu:x86-64-v3 ", "cpu:x86-64-v3", "llvm-cpu", "x86-64-v3", ""),
    ("cpu:znver4", "cpu:znver4", "llvm-cpu", "znver4", ""),
    ("gfx90a", "gfx90a", "rocm", "gfx90a", ""),
    ("GFX942", "gfx942", "rocm", "gfx942", ""),
    ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", "rocm", "gfx942", ""),
    ("gfx942:xnack-:sramecc+", "gfx942:sramecc+:xnack-", "rocm", "gfx942", ""),
    ("gfx908:xnack+", "gfx908:xnack+", "rocm", "gfx908", ""),
    ("MI300X", "mi300x", "rocm", "gfx942", "mi300x"),
    ("mi250", "mi250", "rocm", "gfx90a", "mi250"),
    ("mi355x:xnack-", "mi355x:xnack-", "rocm", "gfx950", "mi355x"),
    ("cuda:sm_80", "cuda:sm_80", "cuda", "sm_80", ""),
    ("sm_89", "cuda:sm_89", "cuda", "sm_89", ""),
]


@pytest.mark.parametrize(("text", "canonical", "backend", "arch", "sku"), SPELLINGS)
def test_spelling(text: str, canonical: str, backend: str, arch: str, sku: str) -> None:
    target = Target.parse(text)
    assert (target.backend, target.arch, target.sku) == (backend, arch, sku)
    assert str(target) == canonical
    assert Target.parse(str(target)) == target
    assert hash(Target.parse(canonical)) == hash(target)
    assert Target.parse(target) is target
    assert pickle.loads(pickle.dumps(target)) == target


@pytest.mark.parametrize("text", Target.known())
def test_every_known_target_round_trips(text: str) -> None:
    target = Target.parse(text)
    assert str(target) == text
    assert [target.is_cpu, target.is_gfx9, target.backend == "cuda"].count(True) == 1
    assert target.drivers


def test_facts() -> None:
    assert Target.parse("cpu").drivers == ("local-sync", "local-task")
    assert Target.parse("cpu").is_host
    assert not Target.parse("cpu:x86-64-v4").is_host
    assert Target.parse("cpu:x86-64-v4").family == "cpu"
    assert Target.parse("mi100").family == "cdna1"
    assert Target.parse("gfx950").family == "cdna4"
    assert Target.parse("gfx950").drivers == ("hip",)
    assert Target.parse("cuda:sm_80").family == "cuda"
    assert Target.parse("gfx942:xnack-:sramecc+").features == ("sramecc+", "xnack-")
    assert Target.parse("gfx942") != Target.parse("mi300x") != Target.parse("mi300a")
    assert set(GFX9_SKUS.values()) == set(GFX9_ARCHS)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("gfx941", "gfx942"),
        ("gfx1100", "unknown target 'gfx1100', which is no gfx9 GPU; known: cpu, gfx908"),
        ("gfx94", "did you mean gfx942 or"),
        ("mi300", "mi300x"),
        ("cuda:sm_90", "sm_80"),
        ("cuda", "cuda:sm_80"),
        ("sm_80:x", "cuda:sm_80"),
        ("cpus", "cpu"),
        ("", "gfx942"),
        ("cpu:a b", "not a CPU name"),
        ("cpu:--help", "not a CPU name"),
        ("gfx942:sramecc", "sramecc+ or sramecc-"),
        ("gfx942:xnack+:xnack-", "each once"),
        ("gfx942::xnack+", "bad modes"),
        ("mi300x:fast+", "bad modes"),
    ],
)
def test_unknown_spelling(text: str, hint: str) -> None:
    with pytest.raises(SettingError) as caught:
        Target.parse(text)
    assert repr(text) in str(caught.value)
    assert hint in str(caught.value)


def test_other_types_are_refused() -> None:
    with pytest.raises(SettingError, match="not 3"):
        Target.parse(3)  # type: ignore[arg-type]


CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC
flags\t\t: fpu sse2 avx2 {flags}
cpu MHz\t\t: {mhz}

processor\t: 1
vendor_id\t: AuthenticAMD
flags\t\t: fpu
"""


def _features_of(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    def fake_open(path: str, *args: Any, **kwargs: Any) -> Any:
        assert path == "/proc/cpuinfo"
        return io.StringIO(text)

    with monkeypatch.context() as patched:
        patched.setattr(builtins, "open", fake_open)
        patched.setattr(target_module, "cpuinfo", target_module.cpuinfo.__wrapped__)
        return target_module.cpu_features.__wrapped__()


def test_cpu_features_follow_the_instruction_set_only(monkeypatch: pytest.MonkeyPatch) -> None:
    base = _features_of(CPUINFO.format(flags="avx512f fma", mhz=1), monkeypatch)
    assert _features_of(CPUINFO.format(flags="fma avx512f", mhz=2), monkeypatch) == base
    assert _features_of(CPUINFO.format(flags="fma", mhz=1), monkeypatch) != base
    renamed = CPUINFO.replace("AMD EPYC", "AMD Ryzen").format(flags="avx512f fma", mhz=1)
    assert _features_of(renamed, monkeypatch) != base
    assert len(_features_of("", monkeypatch)) == 16


def test_cpu_features_of_this_machine() -> None:
    assert cpu_features() == cpu_features()
    assert len(cpu_features()) == 16
