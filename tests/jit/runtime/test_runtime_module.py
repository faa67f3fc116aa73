# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loading modules: damaged, foreign and mismatched ones are refused, never fatal."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import ArtifactError, DeviceError
from hipdnn_iree.jit.runtime import cpu
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule, transient_bytes, verify
from hipdnn_iree.jit.signature import ArgSpec, Signature

Compile = Callable[..., bytes]
ROOT = Path(__file__).resolve().parents[3]


def test_the_module_tells_its_workspace(relu_case: Any, chain_case: Any) -> None:
    assert transient_bytes(relu_case.vmfb) == 0
    assert transient_bytes(chain_case.vmfb) >= 48 * 48 * 4


def test_the_digest_is_compared(relu_case: Any) -> None:
    device, digest = Device.open(), hashlib.sha256(relu_case.vmfb).hexdigest()
    LoadedModule.load(device, relu_case.vmfb, sha256=digest)
    LoadedModule.load(device, memoryview(bytearray(relu_case.vmfb)), sha256=digest.upper())
    with pytest.raises(ArtifactError, match=f"damaged: sha256 is .* wanted {digest}"):
        LoadedModule.load(device, relu_case.vmfb[:-1], sha256=digest)


@pytest.mark.parametrize("junk", [b"", b"x", b"PK\x03\x04" + bytes(64), bytes(4096), b"ML\xefR"])
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(ArtifactError, match="damaged or no module"):
        LoadedModule.load(Device.open(), junk)


CORRUPT = """
import random, sys
from hipdnn_iree.graph_api.errors import ArtifactError
from hipdnn_iree.jit.runtime import cpu
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule
good = open(sys.argv[1], "rb").read()
rng, device, refused = random.Random(int(sys.argv[2])), Device.open(), 0
for turn in range(300):
    bad = bytearray(good)
    kind = turn % 4
    if kind == 0:
        del bad[rng.randrange(len(bad)):]
    elif kind == 1:
        for _ in range(rng.choice((1, 4))):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        bad[rng.randrange(256)] ^= 1 << rng.randrange(8)
    else:
        start = rng.randrange(len(bad))
        stop = min(start + rng.randrange(1, 200), len(bad))
        bad[start:stop] = bytes(stop - start)
    try:
        LoadedModule.load(device, bytes(bad))
    except ArtifactError:
        refused += 1
print(refused)
"""


def test_random_damage_never_ends_the_process(relu_case: Any, tmp_path: Path) -> None:
    path = tmp_path / "good.vmfb"
    path.write_bytes(relu_case.vmfb)
    done = subprocess.run(
        [sys.executable, "-c", CORRUPT, str(path), "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # What is not refused differs in bytes that mean nothing (dates, padding of the archive).
    assert int(done.stdout) > 250


def test_damage_inside_the_parts_is_found(relu_case: Any) -> None:
    rng = random.Random(5)
    for _ in range(50):
        bad = bytearray(relu_case.vmfb)
        bad[rng.randrange(600, 5000)] ^= 1 << rng.randrange(8)
        with pytest.raises(ArtifactError, match="wrong checksum of its part"):
            verify(bytes(bad))


def test_code_for_another_cpu(relu_case: Any, compile_text: Compile) -> None:
    flags = (
        *("--iree-llvmcpu-target-triple=aarch64-linux-gnu", "--iree-llvmcpu-target-cpu=generic"),
        "--iree-torch-externalize-transients",
    )
    vmfb = compile_text(relu_case.text, *flags)
    with pytest.raises(DeviceError, match=r"code is for .*embedded-elf-arm_64.*local-sync on x86"):
        LoadedModule.load(Device.open(), vmfb)


def test_code_that_uses_instructions_this_cpu_lacks(
    relu_case: Any, compile_text: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    triple = "--iree-llvmcpu-target-triple=x86_64-linux-gnu"
    flags = (triple, "--iree-llvmcpu-target-cpu=x86-64-v4", "--iree-torch-externalize-transients")
    vmfb = compile_text(relu_case.text, *flags)
    haswell = frozenset(["sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2"])
    monkeypatch.setattr(cpu, "_features", lambda: haswell)
    text = r"code is for cpu:x86-64-v4; this CPU lacks avx512bw, avx512cd, avx512dq, avx512f,"
    with pytest.raises(DeviceError, match=text):
        LoadedModule.load(Device.open(), vmfb, target="cpu:x86-64-v4")
    monkeypatch.setattr(cpu, "_features", lambda: frozenset(cpu._CHECKED))
    assert cpu.missing_features(vmfb) == ()
    monkeypatch.setattr(cpu, "_features", frozenset)  # a machine that does not tell
    assert cpu.missing_features(vmfb) == ()


def test_the_last_word_on_a_feature_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_features", lambda: frozenset(["sse4_1"]))
    text = b'x cpu_features = "+amx-tile,+sse4.1,-amx-tile", cpu_features = "" y'
    assert cpu.missing_features(text) == ()
    assert cpu.missing_features(text.replace(b"-amx", b"+amx")) == ("amx_tile",)


def test_code_for_a_gpu(relu_case: Any, compile_text: Compile) -> None:
    flags = ("--iree-rocm-target=gfx942", "--iree-torch-externalize-transients")
    vmfb = compile_text(relu_case.text, *flags, backend="rocm")
    assert transient_bytes(vmfb) == 0  # needs no GPU
    with pytest.raises(DeviceError, match=r"mi300x = hip, rocm, rocm-hsaco-fb, gfx942; .*local"):
        LoadedModule.load(Device.open(), vmfb, target="mi300x")


def test_code_without_an_external_workspace(relu_case: Any, compile_text: Compile) -> None:
    vmfb = compile_text(relu_case.text, "--iree-llvmcpu-target-cpu=host")
    with pytest.raises(ArtifactError, match="externalize-transients"):
        LoadedModule.load(Device.open(), vmfb)


def test_a_module_without_main(relu_case: Any, compile_text: Compile) -> None:
    text = relu_case.text.replace("@main", "@other")
    vmfb = compile_text(text, "--iree-torch-externalize-transients", "--iree-opt-level=O1")
    with pytest.raises(ArtifactError, match=r"externalize-transients|no function main"):
        LoadedModule.load(Device.open(), vmfb)


def change(spec: ArgSpec, **what: Any) -> ArgSpec:
    return ArgSpec(**{**{n: getattr(spec, n) for n in spec.__slots__}, **what})


def test_signature_and_module_must_belong_together(chain_case: Any) -> None:
    module = LoadedModule.load(Device.open(), chain_case.vmfb)
    right = chain_case.signature
    y, x, w = right.args
    cases = {
        "takes 3 arguments": (right, (1, 2)),
        r"uids \[1, 1, 2\]": (right, (1, 1, 2)),
        "not of one compilation": (Signature(args=right.args, workspace_bytes=64), (1, 2, 3)),
        "outputs come before": (
            Signature(args=(x, y, w), workspace_bytes=right.workspace_bytes),
            (1, 2, 3),
        ),
        "do not span": (
            Signature(
                args=(y, x, change(w, shape=(47, 48))), workspace_bytes=right.workspace_bytes
            ),
            (1, 2, 3),
        ),
    }
    for text, (signature, uids) in cases.items():
        with pytest.raises(ArtifactError, match=text):
            Executable(module, signature, uids)
    with pytest.raises(ArtifactError, match="names"):
        Executable(module, right, (1, 2, 3), ("y",))


def test_code_that_takes_other_arguments_is_found_when_run(relu_case: Any) -> None:
    import numpy as np

    module = LoadedModule.load(Device.open(), relu_case.vmfb)
    y, x = relu_case.args
    wrong_shape = {"dims": (2, 8), "strides": (8, 1), "shape": (2, 8)}
    for args in ((y, x, x), (y,), (y, change(x, **wrong_shape))):
        executable = Executable(module, Signature(args=args), range(len(args)))
        arrays = {uid: np.ones(spec.dims, np.float32) for uid, spec in enumerate(args)}
        with pytest.raises(ArtifactError, match="does not match its signature"):
            executable.bind(arrays)()
