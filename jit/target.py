# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What code is compiled for: plain data, made without hardware, drivers or compiler.

Spellings that `Target.parse` takes, with the canonical form that ``str`` gives back::

    cpu, cpu:host            -> cpu             the machine that compiles
    cpu:x86-64-v3            -> cpu:x86-64-v3   any CPU name of LLVM
    gfx942                   -> gfx942          gfx908, gfx90a, gfx942, gfx950
    gfx942:sramecc+:xnack-   -> the same        as the HIP runtime names a device
    MI300X                   -> mi300x          a product; its arch follows from the table
    cuda:sm_80, sm_80        -> cuda:sm_80
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ..graph_api.errors import SettingError

__all__ = ["CUDA_ARCHS", "GFX9_ARCHS", "GFX9_SKUS", "Target", "cpu_features", "cpuinfo"]

GFX9_ARCHS = {"gfx908": "cdna1", "gfx90a": "cdna2", "gfx942": "cdna3", "gfx950": "cdna4"}
"""Arch -> family."""

GFX9_SKUS = {
    "mi100": "gfx908",
    "mi210": "gfx90a",
    "mi250": "gfx90a",
    "mi250x": "gfx90a",
    "mi300a": "gfx942",
    "mi300x": "gfx942",
    "mi308x": "gfx942",
    "mi325x": "gfx942",
    "mi350x": "gfx950",
    "mi355x": "gfx950",
}
"""Product -> arch.  IREE 3.13 takes each as ``--iree-rocm-target`` and tunes for its size."""

CUDA_ARCHS = (
    *("sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75"),
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_120", "sm_121"),
)
"""What IREE 3.13 compiles for; sm_90 and sm_100 give "missing GPU target" (W-047)."""

_DRIVERS = {"llvm-cpu": ("local-sync", "local-task"), "rocm": ("hip",), "cuda": ("cuda",)}
_FEATURE = re.compile(r"(sramecc|xnack)([+-])")
_CPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to compile for; make it with `parse`.

    Attributes
    ----------
    backend : str
        IREE's target backend: ``"llvm-cpu"``, ``"rocm"`` or ``"cuda"``.
    arch : str
        ``"host"`` or LLVM's name of a CPU, ``"gfx942"``, ``"sm_80"``.
    sku : str
        Product such as ``"mi300x"``, or ``""`` when only the arch is known.
    features : tuple of str
        Modes of an AMD GPU that the code may rely on, in HIP's spelling and sorted
        (``"sramecc+"``, ``"xnack-"``).  Code without them runs in any mode.
    """

    backend: str
    arch: str
    sku: str = ""
    features: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: Target | str) -> Target:
        """Return the target for a spelling listed at the top of this module.

        Raises
        ------
        SettingError
            If the spelling is unknown; the text lists what is known and what is close.
        """
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise SettingError(f"a target is text such as 'cpu' or 'gfx942', not {text!r}")
        head, _, rest = text.strip().partition(":")
        name = head.lower()
        if name == "cpu":
            return _cpu(text, rest or "host")
        if name in GFX9_ARCHS or name in GFX9_SKUS:
            return _gfx9(text, name, rest)
        arch = rest.lower() if name == "cuda" else name
        if arch in CUDA_ARCHS and (name == "cuda" or not rest):
            return cls("cuda", arch)
        raise _unknown(text)

    @staticmethod
    def known() -> tuple[str, ...]:
        """Return one spelling for every target; ``cpu:`` takes any CPU name besides."""
        return ("cpu", *GFX9_ARCHS, *GFX9_SKUS, *(f"cuda:{arch}" for arch in CUDA_ARCHS))

    @property
    def is_cpu(self) -> bool:
        """Whether the code runs on a CPU."""
        return self.backend == "llvm-cpu"

    @property
    def is_gfx9(self) -> bool:
        """Whether the code runs on one of AMD's gfx9 GPUs."""
        return self.arch in GFX9_ARCHS

    @property
    def flushes_products(self) -> bool:
        """Whether matrix instructions of halves and bfloat16 take subnormal operands for 0.

        Those of the MI200 do, and write subnormal results as 0 ("MI200 MFMA behavior specifics" in
        AMD's documentation of MIOpen); the MI100's and the MI300's do not.
        """
        return self.arch == "gfx90a"

    @property
    def is_host(self) -> bool:
        """Whether the code fits this machine's CPU only; `cpu_features` tells them apart."""
        return self.is_cpu and self.arch == "host"

    @property
    def family(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"cdna1"`` to ``"cdna4"``."""
        return "cpu" if self.is_cpu else GFX9_ARCHS.get(self.arch, self.backend)

    @property
    def drivers(self) -> tuple[str, ...]:
        """IREE runtime drivers that can run the code, the preferred one first."""
        return _DRIVERS[self.backend]

    def __str__(self) -> str:
        if self.is_cpu:
            return "cpu" if self.arch == "host" else f"cpu:{self.arch}"
        if self.is_gfx9:
            return ":".join((self.sku or self.arch, *self.features))
        return f"{self.backend}:{self.arch}"

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


def _cpu(text: str, arch: str) -> Target:
    if not _CPU_NAME.fullmatch(arch):
        raise SettingError(
            f"target {text!r}: {arch!r} is not a CPU name; examples: cpu, cpu:x86-64-v3, cpu:znver4"
        )
    return Target("llvm-cpu", "host" if arch.lower() == "host" else arch)


def _gfx9(text: str, name: str, rest: str) -> Target:
    found = [_FEATURE.fullmatch(part.lower()) for part in rest.split(":")] if rest else []
    modes = {m[1]: m[0] for m in found if m}
    if len(modes) != len(found):
        raise SettingError(
            f"target {text!r}: bad modes {rest!r}; "
            "allowed: sramecc+ or sramecc-, xnack+ or xnack-, each once, joined by ':'"
        )
    features = tuple(modes[key] for key in sorted(modes))
    if name in GFX9_SKUS:
        return Target("rocm", GFX9_SKUS[name], name, features)
    return Target("rocm", name, "", features)


def _unknown(text: str) -> SettingError:
    from difflib import get_close_matches

    known = Target.known()
    near = get_close_matches(text.strip().lower(), known, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if re.match(r"gfx1\d", text.strip().lower()):  # RDNA: what is spelled alike is another family
        hint = ", which is no gfx9 GPU"
    return SettingError(
        f"unknown target {text!r}{hint}; known: {', '.join(known)}; "
        "cpu:NAME takes any CPU name of LLVM"
    )


@lru_cache(maxsize=1)
def cpuinfo() -> dict[str, str]:
    """Return what Linux says of the first processor, nothing elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            block = file.read().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


@lru_cache(maxsize=1)
def cpu_features() -> str:
    """Return a short digest of this machine's CPU, for the cache key of the target ``cpu``.

    It is made of the model name and the instruction set flags of ``/proc/cpuinfo`` (the first
    processor; the order of the flags does not matter), which is more than LLVM looks at: two
    machines of one digest get the same code.
    """
    import hashlib
    import os

    machine, fields = os.uname(), cpuinfo()
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "CPU implementer")
    facts = [machine.machine, *(fields.get(name, "") for name in (*wanted, "CPU part"))]
    facts += sorted(fields.get("flags", fields.get("Features", "")).split())
    if not any(facts[1:]):  # better a miss too many than code for another CPU
        facts.append(machine.nodename)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
