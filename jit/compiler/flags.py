# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiler flags of each target, in one table.

Sources: for gfx9 the set that Fusilli passes for AMDGPU (``reference/fusilli-features.md``, 7.1);
for the CPU the measurements of ``reference/iree-python-notes.md``, sections 2 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable

from .. import tuning
from ..options import CompileOptions
from ..target import Target

__all__ = ["merge_flags", "target_flags"]

# Every target.  f64 stays f64 (W-020: by default it is computed in f32 and f64 results hold
# garbage), and scratch memory is an argument of the compiled function.
_COMMON = ("--iree-input-demote-f64-to-f32=false", "--iree-torch-externalize-transients")

_PER_BACKEND: dict[str, tuple[str, ...]] = {
    "llvm-cpu": (
        "--iree-dispatch-creation-data-tiling",
        # W-021: with debug information a host pointer of the compiler gets into the object, so that
        # compiling again gives other bytes; without it the output is reproducible.
        "--iree-llvmcpu-debug-symbols=false",
        # W-012: a layer norm fused with the matmul before it keeps rows of 80 KiB on the stack, and
        # is refused at the default of 32 KiB; worker threads have 8 MiB.
        "--iree-llvmcpu-stack-allocation-limit=131072",
    ),
    "rocm": (
        "--iree-preprocessing-pass-pipeline="
        "builtin.module(iree-preprocessing-backward-data-conv-pipeline)",
        "--iree-flow-enable-pad-handling",
        "--iree-global-opt-propagate-transposes-through-conv",
        "--iree-global-opt-enable-sink-transpose-through-pad",
        "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops",
        "--iree-dispatch-creation-enable-aggressive-reshape-movement",
        "--iree-dispatch-creation-enable-split-reduction",
    ),
    "cuda": (),
}


def target_flags(
    target: Target, options: CompileOptions, extra: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the flags of iree-compile for ``target``, in a fixed order.

    Parameters
    ----------
    target : Target
        What to compile for.
    options : CompileOptions
        Gives the optimisation level, the tuning spec and the user's extra flags.
    extra : iterable of str
        Flags for one graph, such as the img2col pass; the user's flags come after them.
    """
    return merge_flags(
        (
            f"--iree-hal-target-backends={target.backend}",
            *_machine(target),
            f"--iree-opt-level={options.opt_level}",
            *_COMMON,
            *_PER_BACKEND[target.backend],
        ),
        ("--iree-dispatch-creation-data-tiling=false",)
        if target.is_cpu and options.data_tiling == "off"
        else (),
        (f"{tuning.FLAG}={spec}",) if (spec := tuning.spec_for(target, options)) else (),
        extra,
        options.extra_flags,
    )


def merge_flags(*groups: Iterable[str]) -> tuple[str, ...]:
    """Return all flags in order; one that comes again replaces the value of the first.

    A repeated flag is otherwise decided by the compiler, differently per flag.
    """
    merged: dict[str, str] = {}
    for group in groups:
        for flag in group:
            merged[flag.partition("=")[0]] = flag
    return tuple(merged.values())


def _machine(target: Target) -> tuple[str, ...]:
    if target.is_cpu:
        return (f"--iree-llvmcpu-target-cpu={target.arch}",)
    if target.backend == "cuda":
        return (f"--iree-cuda-target={target.arch}",)
    # LLVM writes the mode "sramecc+" as the feature "+sramecc".
    features = ",".join(f[-1] + f[:-1] for f in target.features)
    return (
        f"--iree-rocm-target={target.sku or target.arch}",
        *((f"--iree-rocm-target-features={features}",) if features else ()),
    )
