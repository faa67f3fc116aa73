# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiler flags: order, what settings and callers add, what replaces what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipdnn_iree.jit.compiler.flags import merge_flags
from hipdnn_iree.jit.settings import PREFIX, scope
from hipdnn_iree.jit.target import Target
from under_settings import target_flags


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)


def flags_of(target: str, *extra: str) -> tuple[str, ...]:
    return target_flags(Target.parse(target), extra)


@pytest.mark.parametrize("target", Target.known())
def test_every_target_keeps_f64_and_takes_its_workspace(target: str) -> None:
    flags = flags_of(target)
    assert "--iree-input-demote-f64-to-f32=false" in flags
    assert "--iree-torch-externalize-transients" in flags
    assert "--iree-opt-level=O3" in flags
    assert len({flag.partition("=")[0] for flag in flags}) == len(flags)
    assert flags == flags_of(target)


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("cpu", "--iree-llvmcpu-target-cpu=host"),
        ("cpu", "--iree-dispatch-creation-data-tiling"),
        ("cpu:x86-64-v3", "--iree-llvmcpu-target-cpu=x86-64-v3"),
        ("gfx942", "--iree-rocm-target=gfx942"),
        ("gfx942", "--iree-flow-enable-pad-handling"),
        ("mi300x", "--iree-rocm-target=mi300x"),
        ("mi300x:xnack-:sramecc+", "--iree-rocm-target-features=+sramecc,-xnack"),
        ("cuda:sm_80", "--iree-cuda-target=sm_80"),
    ],
)
def test_target_decides(target: str, wanted: str) -> None:
    assert wanted in flags_of(target)


def test_flags_of_one_backend_stay_there() -> None:
    assert not any("rocm" in flag or "pad" in flag for flag in flags_of("cpu"))
    assert not any("llvmcpu" in flag for flag in flags_of("gfx942"))
    assert not any("features" in flag for flag in flags_of("gfx942"))


def test_settings_and_callers_add_and_replace(tmp_path: Path) -> None:
    base = flags_of("cpu")
    img2col = "--iree-preprocessing-pass-pipeline=builtin.module(x)"
    assert flags_of("cpu", img2col) == (*base, img2col)
    spec = tmp_path / "spec.mlir"
    with scope(
        compiler_opt_level="O1",
        compiler_tuning_spec=spec,
        compiler_extra_flags=("--mine=a b", "--iree-torch-externalize-transients=false"),
    ):
        flags = flags_of("cpu", img2col)
    assert "--iree-opt-level=O1" in flags
    assert f"--iree-codegen-tuning-spec-path={spec}" in flags
    assert flags[-2:] == (img2col, "--mine=a b")
    # The user's word is the last one, and it stands once.
    assert "--iree-torch-externalize-transients=false" in flags
    assert "--iree-torch-externalize-transients" not in flags


def test_data_tiling_is_switched_off_on_the_cpu_only() -> None:
    with scope(compiler_data_tiling="off"):
        assert "--iree-dispatch-creation-data-tiling=false" in flags_of("cpu")
        assert "--iree-dispatch-creation-data-tiling" not in flags_of("cpu")
        gfx9 = flags_of("gfx942")
    assert gfx9 == flags_of("gfx942")


def test_merge_keeps_the_first_place_and_the_last_value() -> None:
    assert merge_flags(["--a=1", "--b"], ["--c", "--a=2"], ["--b=false"]) == (
        *("--a=2", "--b=false", "--c"),
    )
    assert merge_flags() == ()
