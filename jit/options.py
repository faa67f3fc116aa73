# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the JIT is told, as frozen arguments: which code to make, where to keep it, who compiles it.

Nothing in ``jit`` reads `settings.settings`: whoever calls it makes these objects once, at the
edge (the command line, the plugin's entry, ``Graph.build``), and passes them down.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import tuning
from .settings_kinds import spell

if TYPE_CHECKING:
    from typing import Self

    from .settings import Settings
    from .target import Target

__all__ = ["COPIES", "BuildOptions", "CacheOptions", "CompileOptions", "WorkerOptions"]

COPIES = {
    "products": "what ops other than pointwise ones read and make",
    "widened": "what ops other than pointwise ones read and make, with halves as float",
    "all": "all operands",
    "sums": "nothing; sums over several dims are taken over one after the other",
}
"""What an attempt may ask for beside what the rules want, most of it copies."""


class _Section:
    """A section of `Settings`: the field ``x`` has the value of the setting ``<SECTION>_x``."""

    SECTION = ""

    @classmethod
    def of(cls, settings: Settings, **changes: Any) -> Self:
        """Return the options that the settings give, with some of them changed."""
        found = {name: getattr(settings, setting_of(cls, name)) for name in _set(cls)}
        return cls(**{**found, **changes})


def _set(section: type[_Section]) -> Iterator[str]:
    """Yield the fields of a section that are settings."""
    yield from (f.name for f in fields(section) if f.metadata.get("setting", True))  # type: ignore[arg-type]


def setting_of(section: type[_Section], name: str) -> str:
    """Return the field of `Settings` for a field of a section."""
    return name if name.startswith("reproducers_") else f"{section.SECTION}_{name}"


@dataclass(frozen=True, kw_only=True)
class CompileOptions(_Section):
    """What decides the code of a graph for a target, besides the two: part of the cache key.

    Attributes
    ----------
    extra_flags : tuple of str
        Flags of iree-compile that go after all others.
    opt_level : str
        Optimisation level of the compiler.
    data_tiling : str
        ``"auto"`` or ``"off"``: whether operands of matmuls are repacked into tiles on the CPU.
    strategies : tuple of str
        ``op=strategy`` for ops that are not to have their default one.
    tuning_spec, tuning_dir : Path or None
        See `tuning`; only the content of the file that holds for the target matters.
    copies : str
        Which operands are materialised beside those that the rules name, see `COPIES`; no
        setting: `attempts` asks for it.  It is in the key by the code plan.
    """

    SECTION = "compiler"

    extra_flags: tuple[str, ...] = ()
    opt_level: str = "O3"
    data_tiling: str = "auto"
    strategies: tuple[str, ...] = ()
    tuning_spec: Path | None = None
    tuning_dir: Path | None = None
    copies: str = field(default="", metadata={"setting": False})

    def key_ingredients(self, target: Target | None = None) -> dict[str, str]:
        """Return what stands in a cache key for the options, by name of the setting.

        Tuning specs stand for their content, as paths say nothing about the code.  For a target
        that is the one spec that holds for it; without a target, all specs of the folder.

        Raises
        ------
        SettingError
            If a tuning spec cannot be read.
        """
        found = {f"{self.SECTION}.{name}": spell(getattr(self, name)) for name in _set(type(self))}
        spec = self.tuning_spec if target is None else tuning.spec_for(target, self)
        every = tuning.folder_content(self.tuning_dir) if not target and self.tuning_dir else ""
        specs = {"tuning_spec": tuning.content(spec) if spec else "", "tuning_dir": every}
        return found | {f"{self.SECTION}.{name}": text for name, text in specs.items()}


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(_Section):
    """How the compiler is run; nothing of it changes the code.

    Attributes
    ----------
    mode : str
        ``"worker"``: IREE's library in a process that stays; ``"cli"``: iree-compile each time.
    timeout_s : float
        Seconds after which a compilation is stopped, and after which one that another process
        does of the same code is waited for no longer.
    max_memory : int
        Bytes of memory above which a compilation ends; 0: half of the machine's.
    fallback : bool
        Whether other ways are tried where the planned one does not compile (`attempts`).
    jobs : int
        Most compilations at one time; 0: one per CPU, at most 4.
    idle_s : float
        Seconds without work after which a worker process ends.
    python : Path or None
        Interpreter of the workers; by default the one that runs this code.
    reproducers_dir : Path or None
        Where failed compilations leave what repeats them; None: nowhere.
    reproducers_keep : int
        How many of them are kept, the newest.
    """

    SECTION = "compiler"

    mode: str = "worker"
    timeout_s: float = 300.0
    max_memory: int = 0
    fallback: bool = True
    jobs: int = 0
    idle_s: float = 300.0
    python: Path | None = None
    reproducers_dir: Path | None = None
    reproducers_keep: int = 20

    @property
    def workers(self) -> int:
        """Most compilations at one time, with the default in numbers."""
        return self.jobs or min(4, len(os.sched_getaffinity(0)))

    @property
    def memory(self) -> int:
        """Bytes that one compilation may take, with the default in numbers."""
        return self.max_memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@dataclass(frozen=True, kw_only=True)
class CacheOptions(_Section):
    """Where compiled code is kept and how it is used.

    Attributes
    ----------
    dir : Path
        Folder of the cache.
    mode : str
        ``"on"``, ``"off"`` or ``"verify"`` (compile anyway and compare).
    max_bytes : int
        Size above which the least recently used entries are removed.
    require_precompiled : bool
        Whether code that is not there is an error.
    """

    SECTION = "cache"

    dir: Path
    mode: str = "on"
    max_bytes: int = 2 << 30
    require_precompiled: bool = False


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """All that `pipeline.compile_source` is told beside graph and target."""

    cache: CacheOptions
    code: CompileOptions = field(default_factory=CompileOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)

    @classmethod
    def of(cls, settings: Settings) -> BuildOptions:
        """Return the options that the settings give."""
        return cls(
            cache=CacheOptions.of(settings),
            code=CompileOptions.of(settings),
            workers=WorkerOptions.of(settings),
        )
