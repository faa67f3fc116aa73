# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of settings: of each one its variable, type, default, meaning and allowed values.

A knob is one row of `Settings`.  `KNOBS` is made from the rows and feeds the documentation,
``hipdnn-iree env``, the options of the command line, the knobs of the IREE engine and those of
hipDNN's plugin.  How values are found is in `settings`.
"""

# ruff: noqa: RUF009 (a row is a field of the dataclass, not a default that is shared)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from . import settings_kinds as kinds

__all__ = ["ENGINE_KNOBS", "HIPDNN_PREFIX", "KNOBS", "PREFIX", "Knob", "Settings", "with_values"]

PREFIX = "HIPDNN_IREE_"
HIPDNN_PREFIX = "HIPDNN_HEUR_"
"""Of hipDNN's own variables about the choice of engines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Knob:
    """What is known of one setting without its value.

    Attributes
    ----------
    name : str
        Dotted name such as ``"compiler.timeout_s"``.
    field : str
        Attribute of `Settings` and keyword of `scope`: the name with an underscore for the dot.
    env : str
        Environment variable.
    type : str
        Type of the value, as annotated.
    default : str
        The default in the spelling of the variable; ``""`` when it is empty or computed.
    allowed : str
        What values are taken, in words.
    help : str
        One line on what it does.
    in_cache_key : bool
        Whether it can change compiled code and therefore is part of the cache key.
    option : str
        Option of the command line, or ``""``.
    engine_knob : str
        Knob of the IREE engine that overrides it for one plan, or ``""``; hipDNN's id of it is
        ``hipdnn_iree.`` and the name.
    parse : callable
        Text to value; raises ValueError.
    """

    name: str
    field: str
    env: str
    type: str
    default: str
    allowed: str
    help: str
    in_cache_key: bool
    option: str
    engine_knob: str
    parse: Callable[[str], Any]

    @property
    def choices(self) -> tuple[str, ...]:
        """The values, where they are a list of words."""
        return tuple(self.allowed.split(" | ")) if " | " in self.allowed else ()


def _row(
    env: str,
    default: str,
    parse: Callable[[str], Any],
    allowed: str,
    help: str,
    *,
    in_cache_key: bool = False,
    prefix: str = PREFIX,
    option: str = "",
    engine_knob: str = "",
) -> Any:
    return field(
        metadata={
            "env": prefix + env,
            "default": default,
            "parse": parse,
            "allowed": allowed,
            "help": help,
            "in_cache_key": in_cache_key,
            "option": option,
            "engine_knob": engine_knob,
        }
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings at one moment; made by `settings`."""

    cache_dir: Path = _row(
        "CACHE_DIR",
        "",
        kinds.path,
        "a folder; it is made when needed",
        "Where compiled code is kept; by default $XDG_CACHE_HOME/hipdnn-iree, "
        "else in ~/.cache, else in $TMPDIR.",
        option="--cache-dir",
    )
    cache_mode: str = _row(
        "CACHE",
        "on",
        *kinds.choice("on", "off", "verify"),
        "on: use it; off: neither read nor write it; verify: compile anyway and compare.",
        option="--cache",
    )
    cache_max_bytes: int = _row(
        "CACHE_MAX_BYTES",
        "2G",
        kinds.nbytes,
        "a positive number of bytes, with an optional K, M, G or T (powers of 1024)",
        "Size above which the entries that were not used for longest are removed.",
        option="--max-bytes",
    )
    cache_require_precompiled: bool = _row(
        "REQUIRE_PRECOMPILED",
        "off",
        kinds.switch,
        "on | off",
        "on: a build that would compile is an error that says what is missing.",
        option="--require-precompiled",
    )
    compiler_mode: str = _row(
        "COMPILER_MODE",
        "worker",
        *kinds.choice("worker", "cli"),
        "worker: IREE's library in a child process that stays; cli: iree-compile each time.",
    )
    compiler_timeout_s: float = _row(
        "COMPILER_TIMEOUT_S",
        "300",
        kinds.seconds,
        "a positive number of seconds",
        "Time after which a compilation is stopped, and another process that compiles the same "
        "is waited for no longer.",
        option="--timeout",
    )
    compiler_max_memory: int = _row(
        "COMPILER_MAX_MEMORY",
        "0",
        kinds.nbytes_or_none,
        "a number of bytes, with an optional K, M, G or T (powers of 1024)",
        "Memory above which a compilation ends and is reported as an error; 0: half of the "
        "machine's.",
    )
    compiler_fallback: bool = _row(
        "COMPILER_FALLBACK",
        "on",
        kinds.switch,
        "on | off",
        "on: where code does not compile as planned, other ways are tried (docs/errors.md).",
    )
    compiler_jobs: int = _row(
        "COMPILER_JOBS",
        "0",
        *kinds.count(0, 256),
        "Compilations that may run at once in this process; 0: one per CPU, at most 4.",
        option="--jobs",
    )
    compiler_idle_s: float = _row(
        "COMPILER_IDLE_S",
        "300",
        kinds.seconds,
        "a positive number of seconds",
        "Time without work after which a compiler worker leaves, to free 180 MB of memory.",
    )
    compiler_python: Path | None = _row(
        "PYTHON",
        "",
        kinds.path,
        "path of a Python executable",
        "Interpreter that the plugin starts and that runs the compiler worker; "
        "by default the one that runs this code.",
    )
    compiler_extra_flags: tuple[str, ...] = _row(
        "EXTRA_FLAGS",
        "",
        kinds.flags,
        "flags of iree-compile, each --name or --name=value, quoted as in a shell",
        "Appended to the compiler flags; a flag that is already there is replaced.",
        in_cache_key=True,
        option="--extra-flags",
    )
    compiler_opt_level: str = _row(
        "OPT_LEVEL",
        "O3",
        *kinds.choice("O0", "O1", "O2", "O3"),
        "Optimisation level of the compiler.",
        in_cache_key=True,
        option="--opt-level",
        engine_knob="opt_level",
    )
    compiler_data_tiling: str = _row(
        "DATA_TILING",
        "auto",
        *kinds.choice("auto", "off"),
        "CPU: whether operands of products are repacked into tiles; auto: where it is right.",
        in_cache_key=True,
        engine_knob="data_tiling",
    )
    compiler_strategies: tuple[str, ...] = _row(
        "STRATEGIES",
        "",
        kinds.strategies,
        "OP=STRATEGY (docs/strategies.md lists them) or one for all ops, separated by commas",
        "How ops are expressed in IR; `plain` is each op as it comes, for comparison.",
        in_cache_key=True,
    )
    compiler_tuning_spec: Path | None = _row(
        "TUNING_SPEC",
        "",
        kinds.path,
        "path of a file",
        "IREE tuning spec (MLIR) that picks kernel configurations; its content is in the key.",
        in_cache_key=True,
        option="--tuning-spec",
    )
    compiler_tuning_dir: Path | None = _row(
        "TUNING_DIR",
        "",
        kinds.path,
        "a folder with files such as gfx942.mlir and mi300x.mlir",
        "Tuning specs by product or architecture, where no file is named.",
        in_cache_key=True,
        option="--tuning-dir",
    )
    reproducers_dir: Path = _row(
        "REPRODUCERS_DIR",
        "",
        kinds.path,
        "a folder; it is made when needed",
        "Where failed compilations leave what repeats them; by default in the cache folder.",
    )
    reproducers_keep: int = _row(
        "REPRODUCERS_KEEP",
        "20",
        *kinds.count(0, 100_000),
        "How many of them are kept, the newest; 0: none is written.",
    )
    plugin_device: str = _row(
        "PLUGIN_DEVICE",
        "auto",
        *kinds.choice("auto", "cpu", "hip"),
        "What the plugin runs on; auto: a GPU if there is one, else the CPU and host pointers.",
    )
    plugin_libpython: Path | None = _row(
        "LIBPYTHON",
        "",
        kinds.path,
        "path of a file",
        "Shared libpython that the plugin loads in a program without Python; "
        "by default that of its interpreter.",
    )
    foreign_plugins: tuple[Path, ...] = _row(
        "PLUGINS",
        "",
        kinds.paths,
        "files and folders, joined by ':'",
        "Engine plugins of others that serve as engines, besides those in hipDNN's folder.",
    )
    foreign_mode: str = _row(
        "PLUGINS_MODE",
        "additive",
        *kinds.choice("additive", "absolute", "off"),
        "additive: plugins in hipDNN's folder and those named; absolute: only those named; "
        "off: none.",
    )
    foreign_device: str = _row(
        "FOREIGN_DEVICE",
        "auto",
        *kinds.choice("auto", "cpu", "hip"),
        "What pointers engine plugins of others are given; auto: a GPU's if there is one, "
        "else host pointers.",
    )
    foreign_era: str = _row(
        "FOREIGN_ERA",
        "auto",
        *kinds.choice("auto", "n25", "node"),
        "Wire format that engine plugins of others read; auto: told from the functions that "
        "they have.",
    )
    foreign_isolate: str = _row(
        "FOREIGN_ISOLATE",
        "load",
        *kinds.choice("load", "graph", "build", "run"),
        "What an engine plugin must first do well in a process of its own: load, answer for "
        "a graph, build it, run it.",
    )
    foreign_timeout_s: float = _row(
        "FOREIGN_TIMEOUT_S",
        "60",
        kinds.seconds,
        "a positive number of seconds",
        "Time that a plugin of others is given for each call in a process of its own.",
    )
    foreign_backend: Path | None = _row(
        "HIPDNN_BACKEND",
        "",
        kinds.path,
        "path of a file",
        "libhipdnn_backend.so, for the engines of hipDNN itself; by default it is looked for.",
    )
    log_level: str = _row(
        "LOG_LEVEL",
        "WARNING",
        *kinds.choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
        "Level of the loggers under 'hipdnn_iree' in the command line and in the plugin.",
    )
    graph_backward_operands: str = _row(
        "BACKWARD_OPERANDS",
        "auto",
        *kinds.choice("auto", "dy_x", "x_dy"),
        "in_0 and in_1 of pointwise backward modes in hipDNN's graphs and files; auto: x_dy in "
        "those of 2025, else dy_x.",
    )
    graph_resize_coordinates: str = _row(
        "RESIZE_COORDINATES",
        "half_pixel",
        *kinds.choice("half_pixel", "align_corners", "asymmetric"),
        "Where elements lie for the resample modes BILINEAR and NEAREST, in graph files that "
        "do not say it.",
    )
    graph_inv_variance: str = _row(
        "INV_VARIANCE",
        "auto",
        *kinds.choice("auto", "inverse", "variance"),
        "What inv_variance is in hipDNN's graphs; auto: the variance in those of 2025, "
        "else 1/√(variance + ε).",
    )
    runtime_driver: str = _row(
        "DRIVER",
        "auto",
        *kinds.choice("auto", "local-sync", "local-task"),
        "How CPU code runs: in the calling thread or on worker threads; auto: on threads from "
        "60 microseconds of one core on.",
        option="--driver",
        engine_knob="driver",
    )
    runtime_threads: int = _row(
        "THREADS",
        "0",
        *kinds.count(0, 4096),
        "Worker threads of local-task; 0: as many as the runtime finds useful.",
        option="--threads",
    )
    runtime_device: int = _row(
        "DEVICE",
        "0",
        *kinds.count(0, 255),
        "GPU that plans run on, by the driver's number; a plan for a stream is on the stream's.",
        option="--device",
    )
    runtime_emulate: tuple[str, ...] = _row(
        "EMULATE",
        "",
        kinds.words,
        "gfx908, gfx90a, gfx942, gfx950 or products such as mi300x, separated by commas",
        "AMD GPUs that are emulated in the place of real ones, one device for each name "
        "(docs/emulation.md).",
    )

    engine_policy: tuple[str, ...] = _row(
        "POLICY",
        "",
        kinds.words,
        "names of policies (config, tuned, heuristic, benchmark, autotune, order), separated by "
        "commas",
        "Who ranks the engines that serve a graph; by default HIPDNN_HEUR_POLICY_ORDER, "
        "else config,tuned,order.",
    )
    engine_deselect: tuple[str, ...] = _row(
        "DESELECT",
        "",
        kinds.words,
        "names, aliases or ids of engines, separated by commas",
        "Engines that are not chosen unless they are pinned.",
    )
    engine_winners: Path = _row(
        "WINNERS",
        "",
        kinds.path,
        "path of a file; it is made when needed",
        "Where times measured by autotuning are kept; by default winners.json in the cache folder.",
    )
    engine_policy_order: tuple[str, ...] = _row(
        "POLICY_ORDER",
        "",
        kinds.words,
        "names or ids of hipDNN's policies, separated by commas",
        "hipDNN's own list of policies, for when HIPDNN_IREE_POLICY is not set.",
        prefix=HIPDNN_PREFIX,
    )
    engine_config: Path | None = _row(
        "CONFIG_PATH",
        "",
        kinds.path,
        "path of a file",
        "hipDNN's engine override rules (JSON), for the policy config.",
        prefix=HIPDNN_PREFIX,
    )
    engine_order: tuple[str, ...] = _row(
        "FALLBACK_ENGINE_ORDER",
        "",
        kinds.words,
        "names, aliases or ids of engines, separated by commas",
        "Order of engines for the policy order, which leaves out those not named.",
        prefix=HIPDNN_PREFIX,
    )


KNOBS: tuple[Knob, ...] = tuple(
    Knob(name=f.name.replace("_", ".", 1), field=f.name, type=str(f.type), **f.metadata)
    for f in fields(Settings)
)
"""Every knob, in the order of the documentation."""

ENGINE_KNOBS: dict[str, Knob] = {knob.engine_knob: knob for knob in KNOBS if knob.engine_knob}
"""Those that a knob of the IREE engine overrides for one plan, by the name of that."""


def with_values(settings: Settings, **values: Any) -> Settings:
    """Return settings with some of them replaced, in their types or in the spelling of a variable.

    Raises
    ------
    ValueError
        If a value is not allowed.
    """
    known = {knob.field: knob for knob in KNOBS}
    parsed = {name: known[name].parse(kinds.spell(value)) for name, value in values.items()}
    return replace(settings, **parsed)
